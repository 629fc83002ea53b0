"""Builders of data sets that TensorFlow Datasets (TFDS) lacks.

Importing this module registers them, so that `tfds.load` finds them by name.

| name | data set | where the archive comes from |
|---|---|---|
| `chars74k` | Chars74K, natural images | manual directory |
| `fgvc_aircraft` | FGVC-Aircraft 2013b | manual directory |
| `mit_indoor_scenes` | MIT Indoor Scenes 67 | manual directory |
| `stanford_cars` | Stanford Cars 196 | manual directory |
| `voc2012_actions` | PASCAL VOC 2012 actions | downloaded |

The manual directory is `downloads/manual` in the data directory of TFDS, unless
`tfds.download.DownloadConfig(manual_dir=...)` names another. Which files belong
there is in `MANUAL_DOWNLOAD_INSTRUCTIONS` of each builder, and in the error
that is raised when one is missing.

Example:

```python
import tensorflow_datasets as tfds

import keras_bpn.scenarios.builders

scenes = tfds.load("mit_indoor_scenes", split="train", as_supervised=True)
```
"""

from keras_bpn.scenarios.builders.chars74k import Chars74k
from keras_bpn.scenarios.builders.fgvc_aircraft import FgvcAircraft
from keras_bpn.scenarios.builders.mit_indoor_scenes import MitIndoorScenes
from keras_bpn.scenarios.builders.stanford_cars import StanfordCars
from keras_bpn.scenarios.builders.voc2012_actions import Voc2012Actions

__all__ = [
    "Chars74k",
    "FgvcAircraft",
    "MitIndoorScenes",
    "StanfordCars",
    "Voc2012Actions",
]
