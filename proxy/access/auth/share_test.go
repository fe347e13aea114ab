package auth

import (
	"testing"

	"penstock/config"
)

// TestShare checks that a key's share is its configured weight, and that a call without a key has
// the weight 1.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		key  *Key
		want float64
	}{
		{nil, 1},
		{newConfiguredKey(&config.Key{ID: "left out"}), 1},
		{newConfiguredKey(&config.Key{ID: "a", Weight: 3}), 3},
	} {
		if got := c.key.TurnWeight(); got != c.want {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}
