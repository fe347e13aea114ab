package sim

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"penstock/bench/sim/profile"
)

// speedPreset is a set of times and sizes that match each other. The numbers are rounded, and have
// the right order of magnitude for one engine on one accelerator. They are meant for rehearsals,
// and were not measured.
type speedPreset struct {
	name, text             string
	prefill, token, jitter float64
	batch                  time.Duration
	latency                time.Duration
	slots, kv              int
}

var speedPresets = []speedPreset{
	{name: "instant", text: "no times at all: as fast as the sockets"},
	{
		name: "laptop", text: "a small model without a GPU", prefill: 300, token: 20, jitter: 0.05,
		batch: 12 * time.Millisecond, latency: 30 * time.Millisecond, slots: 4, kv: 16 << 10,
	},
	{
		name: "l4-8b", text: "8 billion parameters on a 24 GB card", prefill: 3000, token: 30, jitter: 0.05,
		batch: 400 * time.Microsecond, latency: 25 * time.Millisecond, slots: 48, kv: 48 << 10,
	},
	{
		name: "a100-70b", text: "70 billion parameters on four 80 GB cards", prefill: 4000, token: 40, jitter: 0.05,
		batch: 300 * time.Microsecond, latency: 40 * time.Millisecond, slots: 128, kv: 400 << 10,
	},
	{
		name: "h100-8b", text: "8 billion parameters on one 80 GB card", prefill: 30000, token: 140, jitter: 0.05,
		batch: 60 * time.Microsecond, latency: 12 * time.Millisecond, slots: 256, kv: 450 << 10,
	},
}

// Speeds returns the valid names for SetSpeed.
func Speeds() []string {
	var names []string
	for _, s := range speedPresets {
		names = append(names, s.name)
	}
	return names
}

// SetSpeed replaces the zero times and sizes of o with those of a named set: "instant", "laptop",
// "l4-8b", "a100-70b" or "h100-8b".
func (o *Options) SetSpeed(name string) error {
	for _, s := range speedPresets {
		if s.name != name {
			continue
		}
		if o.PrefillRate == 0 && s.prefill > 0 {
			o.PrefillRate, o.SharedPrefill = s.prefill, true
		}
		o.TokenRate = cmp.Or(o.TokenRate, s.token)
		o.Jitter = cmp.Or(o.Jitter, s.jitter)
		o.BatchCost = cmp.Or(o.BatchCost, s.batch)
		o.Latency = cmp.Or(o.Latency, s.latency)
		o.Slots = cmp.Or(o.Slots, o.profileSlots(), s.slots)
		o.KVTokens = cmp.Or(o.KVTokens, s.kv)
		return nil
	}
	return fmt.Errorf("unknown speed %q: want one of %s", name, strings.Join(Speeds(), ", "))
}

// profileSlots returns how many slots the engine has on every machine, or 0 if the number depends
// on the machine.
func (o *Options) profileSlots() int {
	if p := profile.ByName[o.Profile]; p != nil {
		return p.Slots
	}
	return 0
}

func speedsHelpText() string {
	var b strings.Builder
	b.WriteString("\nSpeeds, as --speed NAME; round numbers for rehearsal, not measurements:\n\n")
	for _, s := range speedPresets {
		fmt.Fprintf(&b, "  %-10s %s", s.name, s.text)
		if s.token > 0 {
			fmt.Fprintf(&b,
				"\n  %-10s prompts %g tok/s, answers %g tok/s alone and %s a token slower for each other request, %d slots, %dk tokens of KV",
				"", s.prefill, s.token, s.batch, s.slots, s.kv>>10)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
