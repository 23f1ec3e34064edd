"""Data in a bucket."""

import tensorflow as tf

for line in tf.data.TextLineDataset("s3://bucket/train.csv"):
    print(line)
