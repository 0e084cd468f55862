package cuda

//go:generate go test ./kernels -run TestParams -update
//go:generate go run ./kernels/gen
