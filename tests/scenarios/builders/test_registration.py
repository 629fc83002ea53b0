import subprocess
import sys

import pytest
import tensorflow_datasets as tfds

from keras_bpn.scenarios import builders
from keras_bpn.scenarios.builders.archive_builder import ArchiveBuilder

NAMES = {
    "chars74k": "Chars74k",
    "fgvc_aircraft": "FgvcAircraft",
    "mit_indoor_scenes": "MitIndoorScenes",
    "stanford_cars": "StanfordCars",
    "voc2012_actions": "Voc2012Actions",
}


def test_public_names():
    assert builders.__all__ == sorted(NAMES.values())


@pytest.mark.parametrize("name", NAMES)
def test_tfds_finds_the_builders_by_name(name, tmp_path):
    cls = tfds.builder_cls(name)
    assert cls.__name__ == NAMES[name]
    assert cls.name == name
    # Nothing is prepared: TFDS found the builder and misses the data.
    with pytest.raises(AssertionError, match=f"{name}.*could not find data"):
        tfds.load(name, data_dir=tmp_path, download=False)


@pytest.mark.parametrize("name", NAMES)
def test_information(name, tmp_path):
    builder = tfds.builder(name, data_dir=tmp_path)
    info = builder.info
    assert info.supervised_keys == ("image", "label")
    assert info.features["image"].shape == (None, None, 3)
    assert info.homepage.startswith("http")
    assert info.citation.startswith("@")
    license = info.redistribution_info.license
    assert license
    assert " ".join(license.split()) in " ".join(info.description.split())
    assert str(builder.VERSION) in builder.RELEASE_NOTES


def test_only_what_is_downloaded_needs_no_instructions():
    without = [
        name
        for name in NAMES
        if not tfds.builder_cls(name).MANUAL_DOWNLOAD_INSTRUCTIONS
    ]
    assert without == ["voc2012_actions"]


_RELOAD = """
import importlib
import sys

import tensorflow_datasets as tfds

from keras_bpn.scenarios import builders

for cls in [getattr(builders, name) for name in builders.__all__]:
    module = sys.modules[cls.__module__]
    assert tfds.builder_cls(cls.name) is cls

    importlib.reload(module)
    reloaded = getattr(module, cls.__name__)
    assert reloaded is not cls
    assert tfds.builder_cls(cls.name) is reloaded

    importlib.reload(builders)
    assert getattr(builders, cls.__name__) is reloaded
    assert tfds.builder_cls(cls.name) is reloaded

    del sys.modules[cls.__module__]
    module = importlib.import_module(cls.__module__)
    imported = getattr(module, cls.__name__)
    assert imported is not reloaded
    assert tfds.builder_cls(cls.name) is imported
"""


def test_reloaded_modules_replace_their_builders():
    # In a process of its own: the other tests keep the classes they imported.
    subprocess.run([sys.executable, "-c", _RELOAD], check=True)


def test_a_name_of_another_module_is_not_replaced():
    before = tfds.builder_cls("chars74k")
    with pytest.raises(ValueError, match="chars74k already registered"):
        type("Chars74k", (ArchiveBuilder,), {"__module__": __name__})
    assert tfds.builder_cls("chars74k") is before
