"""The seeds from which a model draws."""

from keras_bpn.models import workers


def seeded_methods(consolidation):
    """Returns the methods that draw at random, in order.

    Their seeds may be drawn at random as well, and differ between a model and
    one that loads its weights.
    """
    members = getattr(consolidation, "consolidations", [consolidation])
    return [member for member in members if hasattr(member, "seed")]


def agree_on_seeds(model, consolidation):
    """Gives a model the seeds that it has in the process of the chief.

    Seeds that nobody gave are drawn at random, in each process. The workers of
    a strategy have to draw the same factors, keys, and orders of the data.
    """
    holders = [
        *model.task_biases,
        *model.task_heads,
        *seeded_methods(consolidation),
    ]
    seeds = [model._shuffle_seed, *(holder.seed for holder in holders)]
    seeds = workers.from_chief(model.distribute_strategy, seeds)
    model._shuffle_seed = seeds[0]
    for holder, seed in zip(holders, seeds[1:]):
        holder.seed = seed
