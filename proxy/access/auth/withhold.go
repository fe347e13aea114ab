package auth

import "iter"

// Withhold removes rights that r's keys did not have in the previous ring: rights to the given
// models, and tiers. A reload calls it if the keys in a file take effect before the models in the
// same file, or without them. A model or a tier in the file may mean something different from the
// running model or tier of the same name. If the file removes rights or keys, this takes effect
// immediately. Withhold must be called before r is shared.
func (r *Ring) Withhold(models []string, before *Ring) {
	old := make(map[string]*Key, len(before.byHash))
	for k := range before.all() {
		old[k.ID] = k
	}
	for k := range r.all() {
		if len(models) > 0 {
			k.Tiers &= tiersOf(old[k.ID]) // in the new file, the number of the tier may denote other deployments
		}
		for _, m := range models {
			if !k.Allows(m) || old[k.ID].Allows(m) {
				continue
			}
			if k.withheld == nil {
				k.withheld = map[string]struct{}{}
			}
			k.withheld[m] = struct{}{}
		}
	}
}

func (r *Ring) all() iter.Seq[*Key] {
	return func(yield func(*Key) bool) {
		for _, e := range r.byHash {
			if !yield(e.key) {
				return
			}
		}
		if r.issuers == nil {
			return
		}
		for _, is := range r.issuers.byName {
			for i := range is.templates {
				if !yield(is.templates[i].key) {
					return
				}
			}
		}
	}
}

func tiersOf(k *Key) uint8 {
	if k == nil {
		return 0
	}
	return k.Tiers
}
