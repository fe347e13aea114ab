package limit

import (
	"math/rand/v2"
	"time"
)

// AddJitter adds zero, one or two seconds to d, so that rejected clients do not all retry at the
// same time. Retry-After is in whole seconds, so finer jitter would be lost.
func AddJitter(d time.Duration) time.Duration { return d + time.Duration(rand.IntN(3))*time.Second }
