package worker

import (
	"context"
	"fmt"
	"io"
)

// ChildArgument is the first argument that starts this program as a process of a benchmark beside the worker: a peer,
// or a process whose memory is measured.
const ChildArgument = "child"

// RunChild runs such a process. args are the arguments after ChildArgument: its kind, then its own arguments.
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
