from keras_bpn.learning.learn import learn

__all__ = ["learn"]
