package checkpoint

import (
	"reflect"
	"testing"
)

func TestFloorText(t *testing.T) {
	for text, want := range map[string]Floor{
		"1;0;-":            {MaxTime: NoTime},
		"1;17;-5":          {Offset: 17, MaxTime: -5},
		"1;17;99;more;x=y": {Offset: 17, MaxTime: 99},
		"1;17;99;jump=86400000000:30;suspects=3:2:1,16:0:0": {Offset: 17, MaxTime: 99,
			Jump: Jump{86400000000, 30}, Suspects: []HeldSuspect{{Offset: 3, Votes: 2, Agree: 1}, {Offset: 16}}},
		"1;17;99;backfill=40": {Offset: 17, MaxTime: 99, Backfill: 40},
		"1;17;99;jump=5:18;suspects=16:0:0;backfill=1": {Offset: 17, MaxTime: 99, Jump: Jump{5, 18},
			Suspects: []HeldSuspect{{Offset: 16}}, Backfill: 1},
		"1;17;99;suspects=3:2:1:7;sample_bits=20": {Offset: 17, MaxTime: 99, Bits: 20,
			Suspects: []HeldSuspect{{Offset: 3, Votes: 2, Agree: 1, Number: 7}}},
		"1;17;99;jump=0:30": {Offset: 17, MaxTime: 99, Jump: Jump{0, 30}},
	} {
		f, err := ParseFloor(text)
		if err != nil || !reflect.DeepEqual(f, want) {
			t.Errorf("%s: %+v, %v", text, f, err)
		}
		if again, err := ParseFloor(f.String()); err != nil || !reflect.DeepEqual(again, want) {
			t.Errorf("%s is written as %s: %v", text, f, err)
		}
	}
	for _, text := range []string{"", "1", "1;5", "2;5;5", "1;-1;5", "1;x;5", "1;5;x", "1;5;",
		"1;5;5;jump=", "1;5;5;jump=1", "1;5;5;jump=1:-2", "1;5;5;jump=1:2:3", "1;5;5;suspects=", "1;5;5;suspects=5:0:0", "1;5;5;suspects=3:3:0",
		"1;5;5;suspects=3:1:2", "1;5;5;backfill=", "1;5;5;backfill=0", "1;5;5;backfill=-1", "1;5;5;backfill=1:2",
		"1;5;5;sample_bits=", "1;5;5;sample_bits=32", "1;5;5;suspects=3:1:1:", "1;5;5;suspects=3:1:1:-1",
		"1;10;0;suspects=7:0:0;suspects=0:0:0", "1;5;5;backfill=9;backfill=8", "1;5;5;suspects=3:0:0,3:0:0",
		"1;5;5;suspects=0:0:0,1:0:0,2:0:0,3:0:0"} {
		if _, err := ParseFloor(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// TestFloorOfSamples: a floor by the offsets of samples is the same after a way through the offsets of records.
func TestFloorOfSamples(t *testing.T) {
	const bits = 20
	f := Floor{Offset: 17 << bits, MaxTime: 5, Jump: Jump{3, 40 << bits}, Backfill: 90 << bits,
		Suspects: []HeldSuspect{{Offset: 4<<bits | 12, Votes: 1, Agree: 1}, {Offset: 9 << bits}}}
	r := f.Records(bits)
	want := Floor{Offset: 17, MaxTime: 5, Jump: Jump{3, 40}, Backfill: 90, Bits: bits,
		Suspects: []HeldSuspect{{Offset: 4, Votes: 1, Agree: 1, Number: 12}, {Offset: 9}}}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("by records %+v, want %+v", r, want)
	}
	read, err := ParseFloor(r.String())
	if err != nil {
		t.Fatal(err)
	}
	back := read.Samples(bits)
	if f.Bits = bits; !reflect.DeepEqual(back, f) {
		t.Errorf("back by samples %+v, want %+v", back, f)
	}
	if same := want.Records(0); !reflect.DeepEqual(same, want) || !reflect.DeepEqual(want.Samples(0), want) {
		t.Errorf("of one sample a record: %+v", same)
	}
}

// FuzzFloor: what is accepted is written as it was read.
func FuzzFloor(f *testing.F) {
	f.Add("1;12;-")
	f.Add("1;12;-5;more")
	f.Add("1;9223372036854775807;9223372036854775807")
	f.Add("2;1;1")
	f.Add("1;12;7;jump=5:20;suspects=3:1:0,11:0:0")
	f.Add("1;12;7;jump=5:20;other=x")
	f.Add("1;12;7;backfill=9")
	f.Add("1;12;7;jump=5:20;suspects=3:1:0:40;backfill=9;sample_bits=20")
	f.Fuzz(func(t *testing.T, text string) {
		fl, err := ParseFloor(text)
		if err != nil {
			return
		}
		if again, err := ParseFloor(fl.String()); err != nil || again.String() != fl.String() {
			t.Fatalf("%q: %v, then %v, %v", text, fl, again, err)
		}
	})
}
