package plan

import (
	"odradek/detectors"
	_ "odradek/detectors/ops" // all ops: byOp has each
)

// Class determines the launches of a task: tasks of one class share them. A and B have a meaning of
// each op, such as sizes of a kernel.
type Class struct {
	Op            detectors.Op
	Variant, A, B uint32
	Shared        uint32 // most shared memory of a launch, in bytes; the CPU scores the tasks where a device has less
}

// chain is a run of tasks in plan order that one block computes in order, each with the Next of its
// predecessor as carry.
type chain struct {
	first, count uint32
	cost         int
}

// opPlan describes an op's kernels, and which tasks they take.
type opPlan struct {
	op detectors.Op
	// kernels are the functions of NAME.cu, whose names begin with the op's name.
	kernels []string
	// class returns the task's class and its approximate device time in nanoseconds on a full device;
	// ok is false where the CPU scores it. It depends on the task's dimension, fresh rows, lengths and
	// parameters only, not on offsets or the carry. So a task's kernel, and with it every bit of its
	// result, depends on that task alone.
	class func(t *detectors.Task, params detectors.Words) (c Class, cost int, ok bool)
	// launches adds the tiles and launches of a class (builder.tiles, builder.launch). The chains lie in
	// plan order and by falling cost, so that the long ones begin first.
	launches func(c Class, p *builder, chains []chain)
	// rounds is the largest number of rounds of a task, which its kernel requests with the status more;
	// after the last the task goes to the CPU. 0: the kernels request none.
	rounds int
	// again is class for a task's later rounds: round is 2 or more, next is the task's Next of the
	// previous round, which is its carry. nil: class.
	again func(t *detectors.Task, params detectors.Words, round int, next detectors.Words) (c Class, cost int, ok bool)
	// repeats reports that only the carry differs between rounds, so that the child may repeat the
	// launches by itself. Their kernels read the status word of a task first: StatusTodo is its first
	// round in the request, StatusMore has its carry in Next, and any other status needs no work.
	repeats bool
	// models reports that the kernels read the model of a task. They have one more parameter, after
	// scratch: const uint32_t *models. Without it a task with a model goes to the CPU.
	models bool
	// pointRows returns how many rows make a point, for tasks whose kernels read normalised points instead of rows
	// (normalise.go), and 0 for other tasks. class and the kernels get such a task with its points as its rows, and
	// with the parameters that rowParams makes of its own. nil: 0 for all tasks.
	pointRows func(params detectors.Words) int
	rowParams func(params detectors.Words) detectors.Words
	// divides reports whether several devices can divide the work in a task of the class, which has no Next. Their
	// launches do the portion builder.portion of builder.portions in each task, and merge returns the task's result
	// from what all of them wrote. nil: no class.
	divides func(c Class) bool
	merge   func(params detectors.Words, portions []detectors.Result) detectors.Result
}

// plans has the ops with kernels, in the order of the kernels' indices.
var plans = [...]*opPlan{
	&ikasstPlan,
	&lofPlan,
	&knnPlan,
	&svdsstPlan,
	&discordsPlan,
	&discordPlan,
	&scanPlan,
	&topnPlan,
	&arPlan,
	&setPlan,
}

var (
	byOp  []*opPlan // by number of an op: its plan, nil for none
	names []string  // of the kernels, by a Launch's index
)

// init fills the lists of kernels and ops from plans. An initialiser cannot, because a plan's functions
// look kernels up in these lists.
func init() {
	byOp = make([]*opPlan, len(detectors.Ops()))
	for _, p := range plans {
		byOp[p.op] = p
		names = append(names, p.kernels...)
	}
	names = append(names, normaliseKernel)
}

// Has reports whether there are kernels for an op.
func Has(op detectors.Op) bool { return byOp[op] != nil }

// Kernels lists the names of the kernels by a Launch's index. The caller must not change the list.
func Kernels() []string { return names }
