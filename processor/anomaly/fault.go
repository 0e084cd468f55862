package anomaly

// A fault of a series may make several anomalies: of several detectors, or one after another of the same detector. They have one fault id.

// SetFault makes the anomaly that Step has just opened one of a fault.
func (s *State) SetFault(id [16]byte) { s.life.anomaly.Fault = id }

// GivesFault reports whether an anomaly of the same series that opens while a is open, or with the score that closes a, is of a's fault:
// both are of one mode, and a is not like false alarms.
func (a *Anomaly) GivesFault(shadow bool) bool { return a.Shadow == shadow && a.Like == nil }
