"""Is training on divided volumes the serial training, in less memory and time?"""
