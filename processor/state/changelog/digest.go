package changelog

import (
	"crypto/sha256"
	"encoding/hex"
)

// Digest returns the name of a series in errors, which end up in logs: a series key may be
// confidential. `worker state list -keys` and `state export` show it beside the key.
func Digest(key []byte) string {
	sum := sha256.Sum256(key)
	return "#" + hex.EncodeToString(sum[:6])
}
