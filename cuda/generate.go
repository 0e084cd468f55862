package cuda

//go:generate go run kernels/gen.go
