package limit

import (
	"math/rand/v2"
	"time"
)

// Jitter lengthens d by none, one or two seconds, so that clients that are asked to come back do
// not come back together. They get whole seconds, so a finer spread would be rounded away.
func Jitter(d time.Duration) time.Duration { return d + time.Duration(rand.IntN(3))*time.Second }
