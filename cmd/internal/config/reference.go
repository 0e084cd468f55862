package config

import (
	"encoding/hex"
	"fmt"

	"odradek/detectors"
)

// referred is the detector with a reference set, or the error of making it. Without REFERENCE it has neither.
type referred struct {
	detector detectors.Modelled
	err      error
}

// Cut returns the score of the last outlier of the reference set; 0 without one.
func (r *referred) Cut() float64 { return r.detector.Cut() }

// sum returns the SHA-256 of the model in hexadecimal digits; "" without one.
func (r *referred) sum() string {
	if r.detector == nil {
		return ""
	}
	s := r.detector.Model().Sum()
	return hex.EncodeToString(s[:])
}

// refer makes the detector of REFERENCE, of settings whose defaults are set.
func (d *DetectorSettings) refer() referred {
	if d.Reference == "" {
		return referred{}
	}
	spec := specOf(d.Op)
	if spec.NewReferred == nil {
		return referred{err: fmt.Errorf("op %s takes no reference set; use knn", d.Op)}
	}
	rows, err := ReadReference(d.Reference, d.Fields)
	if err != nil {
		return referred{err: err}
	}
	det, err := spec.NewReferred(d.values(none), len(d.Fields), rows, d.Outliers)
	if err != nil {
		return referred{err: err}
	}
	return referred{detector: det}
}
