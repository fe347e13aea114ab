package reload

import (
	"fmt"

	"penstock/config"
)

// CapacityChange describes how a reload changes a model's capacity.
type CapacityChange struct {
	Model       string `json:"model"`
	Kind        string `json:"kind"` // added, removed or changed
	SlotsBefore int    `json:"slots_before"`
	SlotsAfter  int    `json:"slots_after"`
	// Assumed is true if the engines have not reported their slots yet. In this case, SlotsAfter is
	// estimated from the engines' profiles.
	Assumed bool `json:"assumed,omitempty"`
	// Added is the number of upstreams that the model gains. Draining is the number of the model's
	// upstreams that are no longer configured. Dropped is the number of the model's upstreams that
	// now serve only other models.
	Added    int `json:"upstreams_added,omitempty"`
	Draining int `json:"upstreams_draining,omitempty"`
	Dropped  int `json:"upstreams_dropped,omitempty"`
}

// String describes the change in one line: "llama: 48 -> 16 slots, 2 upstreams draining".
func (c CapacityChange) String() string {
	about := ""
	if c.Assumed {
		about = "about "
	}
	var s string
	switch c.Kind {
	case string(config.SettingAdded):
		s = fmt.Sprintf("%s: new, %s%s", c.Model, about, pluralize(c.SlotsAfter, "slot"))
	case string(config.SettingRemoved):
		s = fmt.Sprintf("%s: removed, had %s", c.Model, pluralize(c.SlotsBefore, "slot"))
	default:
		s = fmt.Sprintf("%s: %d -> %s%s", c.Model, c.SlotsBefore, about, pluralize(c.SlotsAfter, "slot"))
	}
	if c.Added > 0 && c.Kind != string(config.SettingAdded) {
		s += ", " + pluralize(c.Added, "upstream") + " added"
	}
	if c.Draining > 0 {
		s += ", " + pluralize(c.Draining, "upstream") + " draining"
	}
	if c.Dropped > 0 && c.Kind != string(config.SettingRemoved) {
		s += ", " + pluralize(c.Dropped, "upstream") + " no longer used"
	}
	return s
}

func pluralize(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
