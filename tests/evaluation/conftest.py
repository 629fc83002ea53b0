import pytest


@pytest.fixture(autouse=True)
def fresh_keras():
    """Takes the place of the fixture for tests of networks: none is used."""
