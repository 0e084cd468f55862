package worker

import (
	"context"
	"fmt"
	"io"
)

// ChildArgument is the first argument of this program where it is one of the processes that a
// benchmark runs beside the worker: a peer, or something whose memory is measured.
const ChildArgument = "child"

// RunChild is that process. The arguments are those after ChildArgument: what it is, and its own.
func RunChild(ctx context.Context, args []string, out io.Writer) error {
	switch what := args[0]; what {
	case "franz-go":
		return franzLoop(ctx, args[1:], out)
	case "memory":
		return memoryChild(args[1:], out)
	default:
		return fmt.Errorf("no child %q", what)
	}
}
