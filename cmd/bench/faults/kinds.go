package faults

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"odradek/cmd/bench/testbed"
	"odradek/cmd/internal/config"
	"odradek/processor/kafkatest"
)

// kind is a fault that happens again and again in a round.
type kind struct {
	name, what string
	do         func(*round) error
}

// kinds lists the faults. The workers' sessions last 6 s, their transactions 5 s; the cluster takes 5 s to notice that a
// node is down.
var kinds []kind

// gpuChild is the kind that needs a GPU, clocks the one in which records without a score are late, workerClocks the one that needs Go,
// workerDisk the one that needs root.
const (
	gpuChild     = "gpu-child"
	clocks       = "clocks"
	workerClocks = "worker-clocks"
	workerDisk   = "worker-disk"
)

// The kinds that Run leaves out unless they are named: one needs another build of the worker, one takes all the time.
const (
	upgrade = "upgrade"
	soak    = "soak"
)

// init fills kinds, because mixed draws from them.
func init() {
	kinds = []kind{
		{"none", "nothing happens", func(r *round) error { r.faults--; r.pause(time.Second, time.Second); return nil }},
		{"kill", "SIGKILL of a worker, which starts again within 2 s", (*round).killWorker},
		{gpuChild, "SIGKILL of the process that uses the GPU for a worker; left out without ODRADEK_EXECUTOR=cuda", (*round).killChild},
		{"freeze", "a worker stops for 1 to 15 s: for less and for more than its session and its transaction last", (*round).freezeWorker},
		{"restart", "SIGTERM of a worker, which starts again within 2 s", (*round).restartWorker},
		{"settings", "the same, or SIGKILL, and the worker has other settings of what changes no score", (*round).otherSettings},
		{"join-leave", "each 0.2 to 2 s a worker joins or leaves", (*round).joinLeave},
		{"broker", "SIGKILL of a node for 1 or 7 s, a coordinator or any other", (*round).killNode},
		{"broker-freeze", "a node stops for 1 or 7 s", (*round).freezeNode},
		{"brokers", "SIGKILL of two nodes at overlapping times, the first often a coordinator", (*round).killNodes},
		{"full-disk", "the disk of a node is full for 2 to 6 s, which ends the node; needs root, and is left out without", (*round).fillDisk},
		{"rolling", "all nodes are restarted in turn", (*round).rolling},
		{"everything", "SIGKILL of all nodes and of all workers at once", (*round).killEverything},
		{"leaders", "leaders of the input and of the outputs move", (*round).moveLeaders},
		{"cut", "all connections break, for up to 3 s none is accepted", (*round).cut},
		{"one-way", "requests arrive and answers do not, or the other way round, for up to 8 s, at one node", (*round).oneWay},
		{"lost-reply", "a node does what is asked, and the connection breaks instead of the answer", (*round).lostReply},
		{"delay", "each byte takes 100 to 400 ms more", (*round).delay},
		{"throttle", "a connection passes 20 to 200 KB a second", (*round).throttle},
		{"partitions", "the input gets another partition", (*round).addPartition},
		{clocks, "readings are days ahead or seconds back, or their clock jumps by up to a minute; half the times a worker is killed then",
			(*round).wrongClock},
		{workerClocks, "wall clocks of workers jump every 3 s, 2 days back to 50 minutes ahead, and one is killed; left out without Go",
			(*round).killWorker},
		{"aborted", "a producer of the input aborts every other transaction, after up to 2 s", (*round).transaction},
		{registry, "records of a new schema arrive while no schema registry answers, and a worker starts", (*round).registryDown},
		{workerDisk, "the workers' disk is full for up to 4 s while records of a new schema arrive, and one is killed; left out without root",
			(*round).fillWorkerDisk},
		{upgrade, "SIGTERM or SIGKILL of a worker; another build (-other), or this one again, takes its place", (*round).otherBuild},
	}
	// Not those that need another build or other input, nor more partitions: a worker that starts after them waits for a decision.
	single := slices.DeleteFunc(slices.Clone(kinds[1:]), func(k kind) bool {
		return k.name == upgrade || k.name == registry || k.name == "partitions" || k.name == clocks || k.name == workerClocks ||
			k.name == workerDisk
	})
	draw := func(r *round, from []kind) error {
		k := from[r.rng.IntN(len(from))]
		r.say("%s: %s", r.kind.name, k.name)
		return k.do(r)
	}
	lasting := slices.DeleteFunc(slices.Clone(single), func(k kind) bool { return k.name == "everything" || k.name == "full-disk" })
	kinds = append(kinds,
		kind{"mixed", "one of the others but clocks, worker-clocks, worker-disk, partitions, registry and upgrade, drawn each time",
			func(r *round) error { return draw(r, single) }},
		kind{soak, "the same but full-disk in one round of -minutes, and worker w0 never ends: what it holds has to stay level",
			func(r *round) error {
				r.pause(0, 10*time.Second)
				return draw(r, lasting)
			}})
}

// anyWorker draws a worker that may end.
func (r *round) anyWorker() int {
	first := 0
	if r.kind.name == soak {
		first = 1
	}
	return first + r.rng.IntN(len(r.workers)-first)
}

func (r *round) killWorker() error {
	i := r.anyWorker()
	r.workers[i].Kill()
	r.kills++
	r.pause(0, 2*time.Second)
	return r.replace(i)
}

// onGPU reports whether the workers score on a GPU.
func (o *Options) onGPU() bool { return slices.Contains(o.Settings, config.Prefix+"EXECUTOR="+onGPU) }

// killChild kills the children of a worker. A batch that four children have died with is scored on the CPU, with other bits, so a
// new child gets time to score.
func (r *round) killChild() error {
	killed := 0
	if r.onGPU() {
		killed = testbed.KillChildren(r.workers[r.anyWorker()].PID())
	}
	r.kills += killed
	if killed == 0 { // none, or none yet
		r.faults--
	}
	r.pause(time.Second, 3*time.Second)
	return nil
}

func (r *round) freezeWorker() error {
	w := r.workers[r.anyWorker()]
	w.Pause()
	r.pause(time.Second, 15*time.Second)
	w.Resume()
	return nil
}

func (r *round) restartWorker() error {
	i := r.anyWorker()
	if err := drain(r.workers[i]); err != nil {
		return err
	}
	r.pause(0, 2*time.Second)
	return r.replace(i)
}

// end ends a worker, with SIGTERM or with SIGKILL.
func (r *round) end(i int) error {
	if r.rng.IntN(2) == 0 {
		r.workers[i].Kill()
		r.kills++
		return nil
	}
	return drain(r.workers[i])
}

func (r *round) otherSettings() error {
	i := r.anyWorker()
	if err := r.end(i); err != nil {
		return err
	}
	r.others = nil
	for _, x := range [][]string{
		{"COMPRESSION", "none", "lz4", "zstd"}, {"COMMIT_INTERVAL", "10ms", "50ms", "300ms"},
		{"REPLAY_LIMIT", "1s", "30s"}, {"WORKERS", "1", "3"},
	} {
		r.others = append(r.others, config.Prefix+x[0]+"="+x[1+r.rng.IntN(len(x)-1)])
	}
	r.pause(0, 2*time.Second)
	return r.replace(i)
}

func (r *round) otherBuild() error {
	i := r.anyWorker()
	if err := r.end(i); err != nil {
		return err
	}
	r.pause(0, time.Second)
	return r.replace(i)
}

func (r *round) joinLeave() error {
	r.pause(200*time.Millisecond, 2*time.Second)
	if n := len(r.workers); n > fleet {
		last := r.workers[n-1]
		r.workers = r.workers[:n-1]
		return drain(last)
	}
	w, err := r.start(len(r.workers))
	if err == nil {
		r.workers = append(r.workers, w)
	}
	return err
}

// node draws a node: one that coordinates the group or a worker's transactions, or any.
func (r *round) node() *kafkatest.Node {
	ctx, cancel := context.WithTimeout(r.ctx, 5*time.Second)
	defer cancel()
	id, err := int32(-1), error(nil)
	switch r.rng.IntN(3) {
	case 0:
		id, err = r.c.Admin().Coordinator(ctx, r.group(), false)
	case 1:
		id, err = r.c.Admin().Coordinator(ctx, r.group()+"-w0", true)
	}
	if n := r.c.NodeByID(id); err == nil && n != nil {
		return n
	}
	return r.c.Node(r.rng.IntN(len(r.c.Nodes())))
}

// down is a time that a node is away: for less or for more than the cluster takes to notice.
func (r *round) down() time.Duration {
	if r.rng.IntN(2) == 0 {
		return time.Second
	}
	return 7 * time.Second
}

// whole waits until all nodes are there and all replicas are in sync: the next fault would stop the cluster itself. A node may
// need several starts: a program may have taken its port meanwhile.
func (r *round) whole() (err error) {
	ctx, cancel := context.WithTimeout(r.ctx, 2*time.Minute)
	defer cancel()
	for range 5 {
		if err = r.c.Heal(ctx); err == nil || ctx.Err() != nil {
			return err
		}
		r.say("a node does not start: %v", err)
		r.pause(2*time.Second, 2*time.Second)
	}
	return err
}

func (r *round) killNode() error {
	n, d := r.node(), r.down()
	n.Kill()
	r.kills++
	r.pause(d, d)
	return r.whole()
}

func (r *round) freezeNode() error {
	n, d := r.node(), r.down()
	n.Pause()
	r.pause(d, d)
	return r.whole()
}

func (r *round) killNodes() error {
	first := r.node()
	first.Kill()
	r.pause(0, 3*time.Second)
	second := r.c.Node(r.rng.IntN(len(r.c.Nodes())))
	for second == first && len(r.c.Nodes()) > 1 {
		second = r.c.Node(r.rng.IntN(len(r.c.Nodes())))
	}
	second.Kill()
	r.kills += 2
	r.pause(0, 5*time.Second)
	return r.whole()
}

func (r *round) fillDisk() error {
	if r.disk == nil {
		r.faults--
		r.pause(time.Second, time.Second)
		return nil
	}
	file := filepath.Join(r.disk.dir, "full")
	err := fill(file)
	r.pause(2*time.Second, 6*time.Second)
	if !r.c.Node(len(r.c.Nodes()) - 1).Running() {
		r.kills++
	}
	if rerr := os.Remove(file); err == nil {
		err = rerr
	}
	if err != nil {
		return err
	}
	return r.whole()
}

// fillWorkerDisk fills the disk with the workers' logs and schemas. A worker that starts meanwhile has to do without.
func (r *round) fillWorkerDisk() error {
	file := filepath.Join(r.workerDisk.dir, "full")
	if err := fill(file); err != nil {
		return err
	}
	id, err := r.avro.register(r.ctx)
	if err != nil {
		return err
	}
	r.load.mu.Lock()
	r.avro.id = id
	r.load.mu.Unlock()
	err = r.killWorker()
	r.pause(0, 2*time.Second)
	return errors.Join(err, os.Remove(file))
}

func (r *round) rolling() error {
	for _, n := range r.c.Nodes() {
		ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
		err := n.Stop(ctx)
		cancel()
		if err == nil {
			err = r.whole()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *round) killEverything() error {
	for _, n := range r.c.Nodes() {
		n.Kill()
	}
	for _, w := range r.workers {
		w.Kill()
	}
	r.kills += len(r.c.Nodes()) + len(r.workers)
	r.pause(0, 3*time.Second)
	if err := r.whole(); err != nil {
		return err
	}
	for i := range r.workers {
		if err := r.replace(i); err != nil {
			return err
		}
	}
	// A commit comes before the next of these, or nothing would ever be scored. By then the coordinators have ended what they know of.
	r.pause(12*time.Second, 20*time.Second)
	return nil
}

func (r *round) moveLeaders() error {
	topics := []string{"in-" + r.name, r.group() + "-scores", changelog(r.group(), "in-"+r.name)}
	nodes := r.c.Nodes()
	ctx, cancel := context.WithTimeout(r.ctx, 30*time.Second)
	defer cancel()
	err := r.c.MoveLeader(ctx, topics[r.rng.IntN(len(topics))], int32(r.rng.IntN(partitions)), nodes[r.rng.IntN(len(nodes))].ID)
	if err != nil {
		r.say("a leader did not move: %v", err) // the topic is not there yet, or the replica is not in sync
	}
	return nil
}

func (r *round) cut() error {
	r.link(testbed.Link{Refuse: true})
	r.pause(0, 3*time.Second)
	r.link(testbed.Link{})
	return nil
}

func (r *round) oneWay() error {
	p := r.proxies[r.rng.IntN(len(r.proxies))]
	requests := r.rng.IntN(2) == 0
	p.Set(testbed.Link{HoldRequests: requests, HoldAnswers: !requests})
	r.pause(time.Second, 8*time.Second)
	p.Cut() // what was held back is lost
	p.Set(testbed.Link{})
	return nil
}

func (r *round) lostReply() error {
	r.proxies[r.rng.IntN(len(r.proxies))].LoseReply()
	r.pause(50*time.Millisecond, 500*time.Millisecond)
	return nil
}

func (r *round) delay() error {
	r.link(testbed.Link{Delay: 100*time.Millisecond + time.Duration(r.rng.Int64N(int64(300*time.Millisecond)))})
	r.pause(3*time.Second, 6*time.Second)
	r.link(testbed.Link{})
	return nil
}

func (r *round) throttle() error {
	r.link(testbed.Link{Rate: 20_000 + r.rng.IntN(180_000)})
	r.pause(3*time.Second, 6*time.Second)
	r.link(testbed.Link{})
	return nil
}

// link changes the links to all nodes.
func (r *round) link(l testbed.Link) {
	for _, p := range r.proxies {
		p.Set(l)
	}
}

func (r *round) transaction() error {
	r.pause(0, 300*time.Millisecond)
	return r.load.transaction(r, 1+r.rng.IntN(60), r.faults%2 == 0, func() { r.pause(0, 2*time.Second) })
}

func (r *round) wrongClock() error {
	const day = 24 * 3600 * 1000
	w := r.load.walk
	r.load.mu.Lock()
	switch r.rng.IntN(3) {
	case 0:
		w.wrong, w.by = 1+r.rng.IntN(2), day*(2+r.rng.IntN(300))
	case 1:
		w.wrong, w.by = 1+r.rng.IntN(2000), -r.rng.IntN(10_000)
	case 2:
		w.ahead += r.rng.IntN(60_000)
	}
	r.load.mu.Unlock()
	r.pause(0, 2*time.Second)
	if r.rng.IntN(2) == 0 {
		return r.killWorker()
	}
	return nil
}

func (r *round) addPartition() error {
	ctx, cancel := context.WithTimeout(r.ctx, 30*time.Second)
	defer cancel()
	ps, err := r.c.Admin().Partitions(ctx, "in-"+r.name)
	if err == nil && len(ps) < 2*partitions {
		err = r.c.Admin().AddPartitions(ctx, "in-"+r.name, len(ps)+1)
	}
	r.pause(5*time.Second, 10*time.Second)
	return err
}
