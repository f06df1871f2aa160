class MetricsCacheError(Exception):
    pass


class MetricsCacheValueError(MetricsCacheError):
    pass


class MetricsCacheKeyError(MetricsCacheError):
    pass
