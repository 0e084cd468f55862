package page

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// Faults remembers the last warnings and errors of a log for the status page.
type Faults struct {
	keep int
	mu   sync.Mutex
	list []FaultRecord // oldest first
}

// NewFaults remembers the last n different ones.
func NewFaults(n int) *Faults { return &Faults{keep: n} }

// maxFaultText bounds one of them in bytes.
const maxFaultText = 500

// Handler passes every record on to next and remembers warnings and errors.
func (f *Faults) Handler(next slog.Handler) slog.Handler { return &faultHandler{f: f, next: next} }

// List returns the remembered faults, newest first.
func (f *Faults) List() []FaultRecord {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := append([]FaultRecord{}, f.list...) // never nil, which JSON has as null
	slices.Reverse(out)
	return out
}

func (f *Faults) add(r FaultRecord) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.Count = 1
	for i, old := range f.list {
		if old.Text == r.Text && old.Level == r.Level {
			r.Count += old.Count
			f.list = slices.Delete(f.list, i, i+1)
			break
		}
	}
	if len(f.list) >= f.keep {
		f.list = slices.Delete(f.list, 0, 1)
	}
	f.list = append(f.list, r)
}

type faultHandler struct {
	f     *Faults
	next  slog.Handler
	attrs string // of With, as text
}

func (h *faultHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn || h.next.Enabled(ctx, l)
}

func (h *faultHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		var b strings.Builder
		b.WriteString(r.Message)
		b.WriteString(h.attrs)
		r.Attrs(func(a slog.Attr) bool {
			writeAttr(&b, a)
			return b.Len() < maxFaultText
		})
		text := b.String()
		if len(text) > maxFaultText {
			text = strings.ToValidUTF8(text[:maxFaultText], "") + "..."
		}
		h.f.add(FaultRecord{Time: r.Time, Level: r.Level.String(), Text: text})
	}
	if !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

func writeAttr(b *strings.Builder, a slog.Attr) {
	b.WriteString(" " + a.Key + "=" + a.Value.Resolve().String())
}

func (h *faultHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	b.WriteString(h.attrs)
	for _, a := range attrs {
		writeAttr(&b, a)
	}
	return &faultHandler{h.f, h.next.WithAttrs(attrs), b.String()}
}

func (h *faultHandler) WithGroup(name string) slog.Handler {
	return &faultHandler{h.f, h.next.WithGroup(name), h.attrs}
}
