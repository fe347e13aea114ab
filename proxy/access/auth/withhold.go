package auth

import "iter"

// Withhold removes rights to the given models from r's keys. A key loses its right to a model if
// the key with the same id in the previous ring had no such right. A reload calls Withhold for keys
// that take effect before their file's models, or without them. The reason is that a right to a
// model in the next file is not a right to the model that now runs under the same name. For the
// same reason a key gets no tier that it did not list before. Withhold does not affect removed keys
// and rights that become narrower. It must be called before r is shared.
func (r *Ring) Withhold(models []string, before *Ring) {
	old := make(map[string]*Key, len(before.byHash))
	for k := range before.all() {
		old[k.ID] = k
	}
	for k := range r.all() {
		if len(models) > 0 {
			k.Tiers &= tiersOf(old[k.ID]) // in the next file the number may belong to another tier
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

// all yields every key of r once for each of its hashes, and the keys that give tokens their
// rights.
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

// tiersOf returns the tiers that a key lists. k may be nil.
func tiersOf(k *Key) uint8 {
	if k == nil {
		return 0
	}
	return k.Tiers
}
