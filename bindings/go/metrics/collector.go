// Package metrics offers the counters and histograms of a dlock.Client to Prometheus:
//
//	prometheus.MustRegister(metrics.NewCollector(client, nil))
package metrics

import (
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"

	dlock "github.com/libdlock/libdlock/bindings/go"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

type collector struct {
	client *dlock.Client
	labels prometheus.Labels
}

// NewCollector returns a collector that reads the client when it is asked. The labels are on every metric: they tell several
// clients of one program apart, and may be nil. A client that is closed keeps its last numbers.
func NewCollector(client *dlock.Client, labels prometheus.Labels) prometheus.Collector {
	return collector{client, labels}
}

// Describe sends nothing: the collector is unchecked, so that registering it does not read the client.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics of the client.
func (c collector) Collect(out chan<- prometheus.Metric) {
	text, err := c.client.Metrics()
	var families []*dto.MetricFamily
	if err == nil {
		families, err = read(text)
	}
	if err != nil {
		out <- prometheus.NewInvalidMetric(prometheus.NewDesc("dlock_error", "The client cannot be read.", nil, c.labels), err)
		return
	}
	help := helps(text)
	for _, family := range families {
		name := family.GetName()
		desc := func(labels []string) *prometheus.Desc {
			return prometheus.NewDesc(name, help[strings.TrimSuffix(name, "_total")], labels, c.labels)
		}
		for _, metric := range family.Metric {
			out <- constant(desc, name, metric)
		}
	}
}

// read takes the text for the older format, which the decoder knows in every version. There counters have no type, since their
// families have another name.
func read(text string) ([]*dto.MetricFamily, error) {
	var families []*dto.MetricFamily
	decoder := expfmt.NewDecoder(strings.NewReader(text), "text/plain; version=0.0.4; charset=utf-8")
	for {
		family := &dto.MetricFamily{}
		if err := decoder.Decode(family); errors.Is(err, io.EOF) {
			return families, nil
		} else if err != nil {
			return nil, err
		}
		families = append(families, family)
	}
}

// helps finds the help of each family. The parser, which knows the older text format, drops that of counters.
func helps(text string) map[string]string {
	found := map[string]string{}
	for _, line := range strings.Split(text, "\n") {
		if name, help, ok := strings.Cut(strings.TrimPrefix(line, "# HELP "), " "); ok && strings.HasPrefix(line, "# HELP ") {
			found[name] = help
		}
	}
	return found
}

func constant(desc func([]string) *prometheus.Desc, name string, metric *dto.Metric) prometheus.Metric {
	names, values := labelsOf(metric)
	switch {
	case metric.Histogram != nil:
		buckets := map[float64]uint64{}
		for _, bucket := range metric.Histogram.Bucket {
			buckets[bucket.GetUpperBound()] = bucket.GetCumulativeCount()
		}
		seen := metric.Histogram
		return prometheus.MustNewConstHistogram(desc(names), seen.GetSampleCount(), seen.GetSampleSum(), buckets, values...)
	case metric.Gauge != nil:
		return prometheus.MustNewConstMetric(desc(names), prometheus.GaugeValue, metric.Gauge.GetValue(), values...)
	case strings.HasSuffix(name, "_total"):
		return prometheus.MustNewConstMetric(desc(names), prometheus.CounterValue, metric.Untyped.GetValue(), values...)
	}
	return prometheus.NewInvalidMetric(desc(names), fmt.Errorf("%s: no type that this collector knows", name))
}

func labelsOf(metric *dto.Metric) (names, values []string) {
	sort.Slice(metric.Label, func(i, j int) bool { return metric.Label[i].GetName() < metric.Label[j].GetName() })
	for _, label := range metric.Label {
		names = append(names, label.GetName())
		values = append(values, label.GetValue())
	}
	return names, values
}
