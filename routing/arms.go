package routing

import (
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"penstock/config"
)

// An arm is a group of a tier's targets: the targets of the deployments that take one share of the
// model's calls (config.Deployment.Traffic). A call's number decides to which arm the call belongs.
// The number is the same at every edge and for every turn of a conversation, so no state is kept.
//
// A call that belongs to an arm goes to the other targets of its tier if no target of the arm takes
// the call. Calls that belong to no arm go to an arm only if no other target of the route takes
// calls. Full targets count as taking calls: a new engine that is tried with a twentieth of the
// calls must not get all of them at the busiest hour.

// Arms is a set of arms within a route, with one bit for each arm; bit 0 stands for the targets
// that belong to no arm. The value 0 means all targets.
type Arms uint32

const rest Arms = 1

// share selects the calls that belong to an arm: those with a number n for which from <= n < to.
type share struct {
	tier     int
	name     string
	from, to uint64
}

// armOf returns the number, from 1, that a deployment's arm has in the route. It returns 0 if the
// deployment has no share.
func armOf(r *Route, d *config.Deployment) uint8 {
	if d.Traffic == nil {
		return 0
	}
	if i := slices.IndexFunc(r.arms, func(s share) bool { return s.name == d.Arm }); i >= 0 {
		return uint8(i + 1)
	}
	s := share{tier: d.Tier, name: d.Arm}
	sum := 0.0 // sum of the shares of the tier's earlier arms
	for i := range r.arms {
		if r.arms[i].tier == d.Tier {
			s.from, sum = r.arms[i].to, float64(r.arms[i].to)
		}
	}
	if sum += float64(*d.Traffic) / 100 * math.MaxUint64; sum >= math.MaxUint64 {
		s.to = math.MaxUint64
	} else {
		s.to = uint64(sum)
	}
	r.arms = append(r.arms, s)
	return uint8(len(r.arms))
}

// SharesCalls reports whether any of the route's deployments has a share of the route's calls. If
// so, Query.Arms must be set.
func SharesCalls(r *Route) bool { return r.arms != nil }

// CallNumber returns a number for a key's conversation. The number is the same for all turns and at
// every edge. It is a hash of the key and the start of the first turn, or of the key alone if the
// call belongs to no conversation.
func CallNumber(key string, begin []byte) uint64 {
	return mix(xxhash.Sum64String(key)) ^ xxhash.Sum64(begin)
}

// ArmsOf returns Query.Arms for a call with this number whose key has these tiers: the call's arms,
// at most one in each tier, and bit 0.
func ArmsOf(r *Route, number uint64, tiers uint8) Arms {
	if r.arms == nil {
		return 0
	}
	set := rest
	number = mix(number ^ r.seed)
	for i := range r.arms {
		s := &r.arms[i]
		of := func(t Target) bool { return int(t.arm) == i+1 && t.OpenTo(tiers) }
		if s.from <= number && number < s.to && slices.ContainsFunc(r.targets, of) {
			set |= rest << (i + 1)
		}
	}
	return set
}

// InShare reports whether a call with this number is in a share of the route's calls. It always
// selects the same conversations. An arm with the same share has other conversations.
func InShare(r *Route, number uint64, part config.Percent) bool {
	return float64(mix(mix(number^r.seed))) < float64(part)/100*math.MaxUint64
}

// Arm describes one of a route's arms and its share of the calls.
type Arm struct {
	Name  string  `json:"name"`
	Tier  int     `json:"tier,omitempty"`
	Share float64 `json:"share"` // 0 to 1
}

// ArmsIn returns the route's arms.
func ArmsIn(r *Route) (all []Arm) {
	for _, s := range r.arms {
		all = append(all, Arm{s.name, s.tier, float64(s.to-s.from) / math.MaxUint64})
	}
	return all
}

// ArmNames returns the names of the route's arms.
func ArmNames(r *Route) (names []string) {
	for _, s := range r.arms {
		names = append(names, s.name)
	}
	return names
}

// Missed reports whether a call with these arms went to a target that was not its first choice, and
// returns the arm that the call belongs to; empty: none.
func Missed(r *Route, arms Arms, t *Target) (own string, missed bool) {
	for i := range r.arms {
		if s := &r.arms[i]; arms>>(i+1)&1 != 0 && s.tier <= t.Tier && s.name != t.Arm {
			return s.name, true
		}
	}
	return "", !t.of(arms)
}

// Own returns the arm that a call with these arms should use. It is the arm in the first tier that
// is open to the call, given the tiers of its key. It is empty if that tier has no arm for the
// call.
func Own(r *Route, arms Arms, tiers uint8) string {
	first := slices.IndexFunc(r.targets, func(t Target) bool { return t.OpenTo(tiers) })
	for i := range r.arms {
		if s := &r.arms[i]; first >= 0 && s.tier == r.targets[first].Tier && arms>>(i+1)&1 != 0 {
			return s.name
		}
	}
	return ""
}

// Reaches reports whether a query may go to a target even while other targets take calls.
func (q *Query) Reaches(t *Target) bool { return t.of(q.Arms) }

// of() reports whether a target belongs to one of the arms.
func (t *Target) of(set Arms) bool { return set == 0 || set>>t.arm&1 != 0 }
