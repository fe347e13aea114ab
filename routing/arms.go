package routing

import (
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"penstock/config"
)

// An arm is a group of targets in a tier. Together, they receive a share of the model's calls
// (config.Deployment.Traffic). A call's number (ConversationHash) determines its arm. The number is
// the same at every edge and for every turn of a conversation, so arms need no state.
//
// If no target of a call's arm accepts calls, the call uses the other targets of the tier. A call
// that belongs to no arm uses an arm's targets only if no other target of the route accepts calls.
// For this rule, a full target counts as accepting calls. Otherwise, a new engine with a share of
// one twentieth would get all excess calls at the busiest hour.

// ArmSet is a set of a route's arms, one bit each. Bit 0 represents the targets that belong to no
// arm. 0 means all targets.
type ArmSet uint32

const noArmBit ArmSet = 1

// armCallRange is an arm's range of call numbers: from <= n < to.
type armCallRange struct {
	tier     int
	name     string
	from, to uint64
}

// getOrAddArmNumber returns the number of a deployment's arm in the route, counting from 1, or 0 if the
// deployment has no share.
func getOrAddArmNumber(r *Route, d *config.Deployment) uint8 {
	if d.Traffic == nil {
		return 0
	}
	if i := slices.IndexFunc(r.arms, func(s armCallRange) bool { return s.name == d.Arm }); i >= 0 {
		return uint8(i + 1)
	}
	s := armCallRange{tier: d.Tier, name: d.Arm}
	sum := 0.0 // sum of the shares of earlier arms in the tier
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

// HasArms reports whether the route has arms. If it has, Query.Arms must be set.
func HasArms(r *Route) bool { return r.arms != nil }

// ConversationHash returns the number of a conversation. The number is a hash of the key and of
// begin, the beginning of the first turn, so it is the same for all turns and at every edge. If
// begin is empty, only the key determines the number.
func ConversationHash(key string, begin []byte) uint64 {
	return splitmix64(xxhash.Sum64String(key)) ^ xxhash.Sum64(begin)
}

// SelectArms returns Query.Arms for a call, given its number and its key's tiers. The result
// contains at most one arm in each tier, and bit 0.
func SelectArms(r *Route, number uint64, tiers TierSet) ArmSet {
	if r.arms == nil {
		return 0
	}
	set := noArmBit
	number = splitmix64(number ^ r.seed)
	for i := range r.arms {
		s := &r.arms[i]
		of := func(t Target) bool { return int(t.armNumber) == i+1 && t.IsOpenToTiers(tiers) }
		if s.from <= number && number < s.to && slices.ContainsFunc(r.targets, of) {
			set |= noArmBit << (i + 1)
		}
	}
	return set
}

// IsCallInSample reports whether a call with this number belongs to a sample that contains the
// given percentage of the route's calls. For the same percentage, the sample always contains the
// same conversations. The sample is independent of the arms.
func IsCallInSample(r *Route, number uint64, part config.Percent) bool {
	return float64(splitmix64(splitmix64(number^r.seed))) < float64(part)/100*math.MaxUint64
}

// Arm is an arm of a route and its share of the calls.
type Arm struct {
	Name  string  `json:"name"`
	Tier  int     `json:"tier,omitempty"`
	Share float64 `json:"share"` // 0 to 1
}

// ListArms returns the route's arms.
func ListArms(r *Route) (all []Arm) {
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

// FindMissedArm reports whether a call that belongs to an arm went to a target outside that arm, and
// returns the arm's name. If not, it returns "".
func FindMissedArm(r *Route, arms ArmSet, t *Target) (own string, missed bool) {
	for i := range r.arms {
		if s := &r.arms[i]; arms>>(i+1)&1 != 0 && s.tier <= t.Tier && s.name != t.Arm {
			return s.name, true
		}
	}
	return "", !t.isInArmSet(arms)
}

// CallArmName returns the name of a call's arm, or "". It considers only the first tier that the
// call's key may use.
func CallArmName(r *Route, arms ArmSet, tiers TierSet) string {
	first := slices.IndexFunc(r.targets, func(t Target) bool { return t.IsOpenToTiers(tiers) })
	for i := range r.arms {
		if s := &r.arms[i]; first >= 0 && s.tier == r.targets[first].Tier && arms>>(i+1)&1 != 0 {
			return s.name
		}
	}
	return ""
}

// MayUseArmOf reports whether the query may use the target even while other targets accept calls.
func (q *Query) MayUseArmOf(t *Target) bool { return t.isInArmSet(q.Arms) }

func (t *Target) isInArmSet(set ArmSet) bool { return set == 0 || set>>t.armNumber&1 != 0 }
