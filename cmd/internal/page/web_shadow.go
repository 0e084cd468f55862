package page

import "time"

// ShadowQuery asks for a comparison of the detectors in shadow mode with the others.
type ShadowQuery struct {
	From, To time.Time    // event times between which an anomaly opened to be counted; zero: see ShadowList
	Held     []HeldSeries // of the worker that answers
	Limit    int          // anomalies to list, at most
}

// HeldSeries is the number of series of a partition, and how far the partition is.
type HeldSeries struct {
	Topic     string
	Partition int32
	Series    int64
	Watermark time.Time // zero: not known
}

// ShadowList compares the detectors in shadow mode with the others.
type ShadowList struct {
	From      time.Time        `json:"from" doc:"Anomalies that opened at this event time or later are counted; by default a day before to."`
	To        time.Time        `json:"to" doc:"Anomalies that opened before this event time are counted; by default the latest watermark of this worker, or event time of an anomaly."`
	Series    int64            `json:"series" doc:"Series of this worker's partitions, to which per_series_day is related."`
	Detectors []ShadowDetector `json:"detectors" doc:"Detectors that are in shadow mode, or were and have anomalies in its topic, by name."`
	Anomalies []Anomaly        `json:"anomalies" doc:"The anomalies in shadow mode that are counted: open ones, newest first, then closed ones, newest first."`
	Open      int              `json:"open" doc:"Number of open ones, whether listed or not."`
	Closed    int              `json:"closed" doc:"Number of closed ones, whether listed or not."`
	Loading   bool             `json:"loading" doc:"The topics are being read: the numbers are not complete yet."`
	Truncated bool             `json:"truncated" doc:"The topics have older anomalies that are not kept in memory: the numbers may lack some."`
	Fault     string           `json:"fault,omitempty" doc:"Why a topic cannot be read at present."`
	Topic     string           `json:"topic" doc:"Topic of the anomalies in shadow mode; empty: no detector has been in it."`
}

// ShadowDetector is a detector in shadow mode, beside the others. Two anomalies are of the same fault where they are of one
// series and have an event time in common.
type ShadowDetector struct {
	Detector     string       `json:"detector" doc:"Name of the detector."`
	Opened       int          `json:"opened" doc:"Anomalies that it has opened in shadow mode."`
	PerSeriesDay Number       `json:"per_series_day" doc:"Anomalies of this worker's partitions, per series and day; null without series."`
	Both         int          `json:"both" doc:"Of opened, those that any other detector, not in shadow mode, has found, too."`
	OnlyShadow   int          `json:"only_shadow" doc:"Of opened, the others."`
	OnlyLive     int          `json:"only_live" doc:"Anomalies of the other detectors, in series that it reads, that it has not found."`
	Live         []LiveBeside `json:"live" doc:"Each of the other detectors that is not in shadow mode or has such anomalies, by name."`
}

// LiveBeside is a live detector beside one in shadow mode.
type LiveBeside struct {
	Detector     string `json:"detector" doc:"Name of the detector."`
	Opened       int    `json:"opened" doc:"Anomalies that it has opened in series that the detector in shadow mode reads."`
	PerSeriesDay Number `json:"per_series_day" doc:"Anomalies of this worker's partitions, per series and day; null without series."`
	Both         int    `json:"both" doc:"Anomalies of the detector in shadow mode that this one has found, too."`
	OnlyShadow   int    `json:"only_shadow" doc:"Those that this one has not found."`
	OnlyLive     int    `json:"only_live" doc:"Of opened, those that the detector in shadow mode has not found."`
}

// held returns the series of the partitions of a worker that are running.
func held(s Status) (list []HeldSeries) {
	for i := range s.Partitions {
		if p := &s.Partitions[i]; p.Running {
			list = append(list, HeldSeries{p.Topic, p.Partition, p.Keys, p.Watermark})
		}
	}
	return list
}
