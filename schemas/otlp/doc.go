// Package otlp reads metrics of OpenTelemetry, as the collector's Kafka exporter writes them: a MetricsData (or
// ExportMetricsServiceRequest) in Protobuf (otlp_proto) or, where the record begins with {, in JSON (otlp_json).
//
// A record is an array of readings, @value: one of each data point of a gauge or a sum; of a histogram or a summary, one of its
// count under the metric's name with .count and one of its sum with .sum. wire.go walks through Protobuf by field numbers and
// json.go through JSON; both tell walk what they find, level by level: resource, scope, metric, data point.
//
// # Paths
//
//   - value is the reading's value and time its time_unix_nano; 0 or no time is the record's timestamp.
//   - name and unit are the metric's, scope is its instrumentation scope, type is gauge, counter (a cumulative sum that only
//     grows), delta (of delta temporality) or sum.
//   - counter is the value of a counter and gauge the value of any other reading, so that a transform can make rates of the counters
//     alone. A reading has one of the two; one without a mapped value is left out.
//   - resource.NAME and attributes.NAME are attributes of the resource and of the data point: texts, numbers and Booleans. One
//     that is not there is an empty part of the key; of two of a name the first counts.
//
// A data point without a recorded value, or with NaN, is a missing value. As in package protobuf, the last occurrence of a field
// counts, messages are merged, and messages that no path leads to (exemplars, buckets) are skipped unread.
package otlp
