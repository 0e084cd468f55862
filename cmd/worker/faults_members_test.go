package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/kafkatest"
)

// suspend stops the worker's process (SIGSTOP) in the middle of a transaction of
// its own: the scores topic has one open that does not end. No other worker of the
// fleet may run.
func (o *ordeal) suspend(w *child) {
	o.t.Helper()
	admin, topic := o.c.Admin(), o.group+"-scores"
	open := func() bool {
		hw, err := admin.Ends(o.ctx, topic, kafkatest.HighWatermark)
		must(o.t, err)
		lso, err := admin.Ends(o.ctx, topic, kafkatest.LastStable)
		must(o.t, err)
		for p := range hw {
			if lso[p] < hw[p] {
				return true
			}
		}
		return false
	}
	for range 300 {
		must(o.t, w.cmd.Process.Signal(syscall.SIGSTOP))
		if open() {
			time.Sleep(50 * time.Millisecond) // the coordinator may be completing it
			if open() {
				return
			}
		}
		o.resume(w)
		o.pause(time.Millisecond, 30*time.Millisecond)
	}
	o.t.Fatalf("%s could not be stopped within a transaction", w.name)
}

func (o *ordeal) resume(w *child) {
	o.t.Helper()
	must(o.t, w.cmd.Process.Signal(syscall.SIGCONT))
}

// waitMembers waits until the group is stable with n members.
func (o *ordeal) waitMembers(n int) {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.ctx, patience)
	defer cancel()
	if _, err := o.c.Admin().WaitGroup(ctx, o.group, n, o.input); err != nil {
		o.t.Fatal(err)
	}
}

// TestZombie: a worker's process stops within a transaction for longer than its
// session and its transaction last, another one takes over and goes on, and then
// the first goes on, too, where it was. What it had in hand must not count; it
// comes back as a member, or ends where its instance id has a new owner.
func TestZombie(t *testing.T) {
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		o := newOrdeal(t, c, 3,
			"SESSION_TIMEOUT=2s", "TRANSACTION_TIMEOUT=2s")
		o.load(1500)
		round := 0
		replace := func(id string) (zombie, successor *child) {
			round++
			zombie = o.start(fmt.Sprintf("zombie-%d", round), "INSTANCE_ID="+id)
			zombie.waitReady(t)
			o.goesOn("the start")
			o.suspend(zombie)
			began := time.Now()
			successor = o.start(fmt.Sprintf("successor-%d", round), "INSTANCE_ID=")
			successor.waitReady(t)
			o.waitMembers(1)
			o.goesOn("the takeover")
			t.Logf("taken over within %v", time.Since(began).Round(10*time.Millisecond))
			return zombie, successor
		}
		for range *faultRounds {
			for _, id := range []string{"", "static"} {
				zombie, successor := replace(id)
				o.resume(zombie)
				o.waitMembers(2)
				o.goesOn("the return")
				if code := zombie.drain(t); code != exitOK {
					t.Errorf("zombie with instance id %q drained with %d", id, code)
				}
				if code := successor.drain(t); code != exitOK {
					t.Errorf("successor drained with %d", code)
				}
			}
		}
		o.start("last").waitReady(t)
		o.end("zombie")
	})
}

// TestRebalanceStorm: dynamic members come and go faster than a rebalance ends.
func TestRebalanceStorm(t *testing.T) {
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		o := newOrdeal(t, c, 8)
		members := []*child{o.start("w0")}
		members[0].waitReady(t)
		o.load(1000)
		var left []*child
		for i := 1; i <= 20**faultRounds; i++ {
			if n := len(members); n > 1 && (n == 5 || o.rng.IntN(2) == 0) {
				k := o.rng.IntN(n)
				must(t, members[k].cmd.Process.Signal(syscall.SIGTERM))
				left = append(left, members[k])
				members = append(members[:k], members[k+1:]...)
			} else {
				members = append(members, o.start(fmt.Sprintf("w%d", i)))
			}
			o.pause(200*time.Millisecond, 1200*time.Millisecond)
		}
		o.goesOn("the storm")
		for _, w := range left {
			// One that was told to leave before its first instruction had no handler yet.
			if code := w.exit(t); code != exitOK && (code != -1 || w.began()) {
				t.Errorf("%s left with %d", w.name, code)
			}
		}
		o.end("storm")
	})
}

// remove makes the group that reads the input forget a worker, as an operator can and as the
// coordinator does when a session is over: id is an instance id, or "" for the one
// dynamic member.
func (f *fleet) remove(id string) {
	f.t.Helper()
	g, err := f.c.Admin().Group(context.Background(), f.inputGroup())
	must(f.t, err)
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = f.inputGroup()
	for _, m := range g.Members {
		if m.InstanceID == id {
			rm := kmsg.NewLeaveGroupRequestMember()
			rm.MemberID = m.ID
			if id != "" {
				rm.InstanceID = &id
			}
			req.Members = append(req.Members, rm)
		}
	}
	_, err = req.RequestWith(context.Background(), f.c.Admin().Client())
	must(f.t, err)
}

// TestMembersRemoved: the group forgets its members again and again. Each joins
// anew and goes on; the first time, a static one that has a commit on its way with
// its former member id, which the coordinator refuses as another owner's of
// the instance id.
func TestMembersRemoved(t *testing.T) {
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		o := newOrdeal(t, c, 4)
		wire := newWire(t, c, o.rng)
		static := o.start("static", "INSTANCE_ID=static", wire.setting())
		static.waitReady(t)
		o.load(1000)
		o.goesOn("the start")
		f := wire.disturb(kmsg.TxnOffsetCommit, held)
		wire.wait(kmsg.TxnOffsetCommit, f)
		o.remove("static")
		for end := time.Now().Add(patience); static.count(`msg="joined the group"`) < 2; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the static member that was removed does not come back")
			}
		}
		close(f.free)
		o.goesOn("the removal within a commit")
		o.start("dynamic").waitReady(t)
		for range 6 * *faultRounds {
			// Not in the middle of a rebalance: Kafka never answers the SyncGroup of a
			// member that is removed meanwhile, and kfake not its JoinGroup.
			o.waitMembers(2)
			o.remove([]string{"static", ""}[o.rng.IntN(2)])
			o.pause(50*time.Millisecond, 500*time.Millisecond)
		}
		o.waitMembers(2)
		o.goesOn("the removals")
		o.end("members removed")
	})
}

// count returns how often the text is in the worker's log.
func (c *child) count(text string) int {
	b, _ := os.ReadFile(c.log)
	return bytes.Count(b, []byte(text))
}
