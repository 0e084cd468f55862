package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"odradek/processor/kafka"
	"odradek/processor/state"
)

// statusCollector gives the gauges of the partitions that are assigned now; a
// partition that is gone has none, so no gauge is ever stale.
type statusCollector Metrics

func partitionGauge(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(metricPrefix+name, help, []string{"topic", "partition"}, nil)
}

var (
	assignedDesc  = prometheus.NewDesc(metricPrefix+"assigned_partitions", "Partitions assigned to this worker.", nil, nil)
	restoringDesc = prometheus.NewDesc(metricPrefix+"restoring_partitions",
		"Assigned partitions whose state is still being restored.", nil, nil)

	quarantinedDesc = prometheus.NewDesc(metricPrefix+"quarantined_partitions",
		"Assigned partitions that are paused because they cannot continue.", nil, nil)
	quarantineDesc = prometheus.NewDesc(metricPrefix+"partition_quarantined",
		"1 for a partition that is paused because it cannot continue, by reason.", []string{"topic", "partition", "reason"}, nil)

	registryRequestsDesc = prometheus.NewDesc(metricPrefix+"schema_registry_requests_total", "Requests to the schema registry.", nil, nil)
	registryFailuresDesc = prometheus.NewDesc(metricPrefix+"schema_registry_failures_total",
		"Requests to the schema registry that failed.", nil, nil)
	registryHitsDesc = prometheus.NewDesc(metricPrefix+"schema_cache_hits_total", "Schemas answered from memory or disk.", nil, nil)
	registryUpDesc   = prometheus.NewDesc(metricPrefix+"schema_registry_up",
		"1 if the last request to the schema registry was answered.", nil, nil)

	openDesc = prometheus.NewDesc(metricPrefix+"anomalies_open", "Anomalies that are open in the partitions assigned to this worker.",
		[]string{"detector"}, nil)

	heldDesc       = partitionGauge("records_held", "Records held for order of event time.")
	suspectsDesc   = partitionGauge("suspects_held", "Of those, records whose event time may be wrong (max_jump).")
	lagDesc        = partitionGauge("consumer_lag_records", "Offsets from the committed one to the last stable one.")
	lagSecondsDesc = partitionGauge("consumer_lag_seconds", "How long ago the first uncommitted record was first seen; 0 without lag.")
	committedDesc  = partitionGauge("committed_offset", "Committed offset.")
	positionDesc   = partitionGauge("position_offset", "Next offset to fold.")
	endDesc        = partitionGauge("end_offset", "Last stable offset seen.")
	replayDesc     = partitionGauge("replay_records",
		"Input that a restore would have to read again: offsets from the replay floor to the committed one.")
	replayTimeDesc = partitionGauge("replay_seconds",
		"The same as time: how long ago the first of them was committed. replay_limit bounds it while there is input.")
	eventTimeDesc = partitionGauge("event_time_seconds", "Newest event time among the scores that were sampled.")
	budgetDesc    = prometheus.NewDesc(metricPrefix+"state_budget_bytes", "Memory that the states of all partitions may take.", nil, nil)
	bytesDesc     = partitionGauge("state_bytes", "Estimated memory of the partition's state.")
	watermarkDesc = partitionGauge("watermark_seconds", "Watermark of the partition, an event time, as a Unix time.")
	behindDesc    = partitionGauge("watermark_lag_seconds", "How far the watermark is behind the clock.")
	remainingDesc = partitionGauge("restore_remaining_records", "Offsets that the restore has yet to read of the log it is reading.")
	idleDesc      = prometheus.NewDesc(metricPrefix+"idle_partitions",
		"Assigned partitions without lag that have had nothing to commit for a minute.", nil, nil)
	readyDesc = prometheus.NewDesc(metricPrefix+"ready",
		"1 while the worker does its work: it is in the group, all it was assigned is restored, brokers answer.", nil, nil)
	fetchAgeDesc = partitionGauge("fetch_age_seconds",
		"How long no fetch of the partition, or of its changelog while it is restored, has been answered.")
	highDesc    = partitionGauge("high_watermark_offset", "Where the log ends, with what open transactions have written.")
	highLagDesc = partitionGauge("high_watermark_lag_records", "Offsets from the committed one to the high watermark.")
	onHoldDesc  = prometheus.NewDesc(metricPrefix+"held_partitions",
		"Assigned partitions that wait for something outside of Kafka: the schema registry.", nil, nil)
	holdTimeDesc = partitionGauge("partition_held_seconds",
		"How long the partition has been waiting for something outside of Kafka; 0 when it is not held.")
	keysDesc = partitionGauge("state_keys", "Series in the partition's state.")
)

func (s *statusCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range executorDescs {
		ch <- d
	}
	for _, d := range []*prometheus.Desc{
		registryRequestsDesc, registryFailuresDesc, registryHitsDesc, registryUpDesc,
		assignedDesc, restoringDesc, readyDesc, budgetDesc, fetchAgeDesc, highDesc, highLagDesc, onHoldDesc, holdTimeDesc, quarantinedDesc,
		quarantineDesc, openDesc, idleDesc, bytesDesc, watermarkDesc, behindDesc, remainingDesc, heldDesc, suspectsDesc, lagDesc, lagSecondsDesc,
		committedDesc, positionDesc, endDesc, replayDesc, replayTimeDesc, eventTimeDesc, keysDesc,
	} {
		ch <- d
	}
}

func (s *statusCollector) Collect(ch chan<- prometheus.Metric) {
	m := (*Metrics)(s)
	m.mu.Lock()
	status, ready, registry, executor, budget := m.status, m.ready, m.registry, m.executor, m.budget
	m.mu.Unlock()
	if registry != nil {
		st, up := registry(), 0.0
		if st.Up {
			up = 1
		}
		for d, n := range map[*prometheus.Desc]int64{registryRequestsDesc: st.Requests, registryFailuresDesc: st.Failures,
			registryHitsDesc: st.Hits + st.DiskHits} {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n))
		}
		ch <- prometheus.MustNewConstMetric(registryUpDesc, prometheus.GaugeValue, up)
	}
	if executor != nil {
		stats := executor()
		stats.collect(ch)
	}
	if ready != nil {
		v := 0.0
		if ready() == nil {
			v = 1
		}
		ch <- prometheus.MustNewConstMetric(readyDesc, prometheus.GaugeValue, v)
	}
	if budget > 0 {
		ch <- prometheus.MustNewConstMetric(budgetDesc, prometheus.GaugeValue, float64(budget))
	}
	if status == nil {
		return
	}
	parts, now, restoring, idle, onHold, quarantined := status(), time.Now(), 0, 0, 0, 0
	open := map[string]int64{}
	for i := range parts {
		p := &parts[i]
		gauge := func(d *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, p.Topic, strconv.Itoa(int(p.Partition)))
		}
		for detector, n := range p.Open {
			open[detector] += n
		}
		gauge(keysDesc, float64(p.Keys))
		gauge(heldDesc, float64(p.Held))
		gauge(suspectsDesc, float64(p.Suspects))
		gauge(bytesDesc, float64(p.Bytes))
		waiting := time.Duration(0)
		if p.Hold != "" {
			onHold++
			waiting = now.Sub(p.HoldSince)
		}
		gauge(holdTimeDesc, waiting.Seconds())
		if p.Fetching {
			gauge(fetchAgeDesc, p.FetchAge.Seconds())
		}
		if p.LagKnown {
			gauge(lagDesc, float64(p.Lag))
			gauge(committedDesc, float64(p.Committed))
			gauge(endDesc, float64(p.End))
		}
		if p.HighLagKnown {
			gauge(highDesc, float64(p.HighWatermark))
			gauge(highLagDesc, float64(p.HighLag))
		}
		if q := p.Quarantine; q != nil {
			quarantined++
			ch <- prometheus.MustNewConstMetric(quarantineDesc, prometheus.GaugeValue, 1, p.Topic, strconv.Itoa(int(p.Partition)), q.Reason)
		}
		if !p.Running {
			if p.Quarantine == nil {
				restoring++
			}
			gauge(remainingDesc, float64(p.Remaining))
			continue
		}
		if p.Lag == 0 && now.Sub(p.CommittedAt) > time.Minute {
			idle++
		}
		if p.Watermark > state.NoTime {
			gauge(watermarkDesc, float64(p.Watermark)/1e6)
			gauge(behindDesc, now.Sub(time.UnixMicro(p.Watermark)).Seconds())
		}
		gauge(positionDesc, float64(p.Position))
		pm := m.Partition(kafka.TP{Topic: p.Topic, Partition: p.Partition})
		pm.mu.Lock()
		lag, eventTime := pm.ends.lag(now, p.Committed, p.End), pm.eventTime
		replay, age := pm.next-pm.floor, pm.commits.lag(now, pm.floor, pm.next)
		pm.mu.Unlock()
		gauge(replayDesc, float64(replay))
		gauge(replayTimeDesc, age.Seconds())
		gauge(lagSecondsDesc, lag.Seconds())
		if eventTime > 0 {
			gauge(eventTimeDesc, float64(eventTime)/1e6)
		}
	}
	for detector, n := range open {
		ch <- prometheus.MustNewConstMetric(openDesc, prometheus.GaugeValue, float64(n), detector)
	}
	ch <- prometheus.MustNewConstMetric(assignedDesc, prometheus.GaugeValue, float64(len(parts)))
	ch <- prometheus.MustNewConstMetric(onHoldDesc, prometheus.GaugeValue, float64(onHold))
	ch <- prometheus.MustNewConstMetric(quarantinedDesc, prometheus.GaugeValue, float64(quarantined))
	ch <- prometheus.MustNewConstMetric(idleDesc, prometheus.GaugeValue, float64(idle))
	ch <- prometheus.MustNewConstMetric(restoringDesc, prometheus.GaugeValue, float64(restoring))
}
