package limit

import (
	"math/rand/v2"
	"time"
)

// Jitter adds zero, one or two seconds to d, so that rejected clients do not all retry at the same
// time. Retry-After has whole seconds, so a finer jitter would be lost.
func Jitter(d time.Duration) time.Duration { return d + time.Duration(rand.IntN(3))*time.Second }
