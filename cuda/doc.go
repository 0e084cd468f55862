// Package cuda runs batches on NVIDIA devices: see Open.
package cuda
