package state

import "odradek/processor/anomaly"

// Anomalies of a series have one fault id while any of them is open: an anomaly that opens takes the fault of one that is open, or of
// the one of its own detector that the same score has closed; without either it begins a fault, with its own id. All that are open, and
// give their fault, so have the same one.
//
// Detectors in shadow mode have faults of their own, as their anomalies are published apart. An anomaly that is like false alarms
// gives its fault to none, so that the others are as if it were not there, and takes none. A silence takes a fault in the turn of its
// sample, and gives it to none: the state has it as open or closed as of the last sample that was folded, not of the last that was judged.

// opensInFault puts an anomaly into the fault of the change that opens it. left is the change with which the same score has closed another
// one of the detector, if it has.
func opensInFault(k *Key, events *anomaly.State, c, left *anomaly.Change) {
	if c.Anomaly.Like != nil {
		return
	}
	fault := left.Anomaly.Fault
	if left.Anomaly.Revision == 0 || !left.Anomaly.GivesFault(c.Anomaly.Shadow) {
		var open bool
		if fault, open = openFault(k, events, c.Anomaly.Shadow); !open {
			return
		}
	}
	events.SetFault(fault)
	c.Anomaly.Fault = fault
}

// openFault returns the fault of the open anomalies of a series but one detector's; false: there is none.
func openFault(k *Key, beside *anomaly.State, shadow bool) (id [16]byte, open bool) {
	for i := range k.Alerts.Detectors {
		events := &k.Alerts.Detectors[i].Events
		if a := events.Anomaly(); a != nil && events != beside && a.GivesFault(shadow) {
			return a.Fault, true
		}
	}
	return id, false
}
