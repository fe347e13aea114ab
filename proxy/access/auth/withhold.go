package auth

import (
	"iter"

	"penstock/config"
)

// WithholdModels removes rights that the keys in r did not have in the previous ring: rights to the
// given models, and tiers. A reload calls WithholdModels if only the keys in a file take effect, or
// if they take effect before the models in that file. A model or tier in the file may differ from
// the running model or tier with the same name. If the file removes rights or keys, the removal
// takes effect immediately. WithholdModels must be called before r is shared.
func (r *KeyRing) WithholdModels(models []string, before *KeyRing) {
	old := make(map[string]*Key, len(before.byHash))
	for k := range before.allKeys() {
		old[k.ID] = k
	}
	for k := range r.allKeys() {
		if len(models) > 0 {
			// In the new file, the same tier number may stand for other deployments.
			k.Tiers = k.Tiers.Intersect(keyTiers(old[k.ID]))
		}
		for _, m := range models {
			if !k.AllowsModel(m) || old[k.ID].AllowsModel(m) {
				continue
			}
			if k.withheld == nil {
				k.withheld = map[string]struct{}{}
			}
			k.withheld[m] = struct{}{}
		}
	}
}

func (r *KeyRing) allKeys() iter.Seq[*Key] {
	return func(yield func(*Key) bool) {
		for _, e := range r.byHash {
			if !yield(e.key) {
				return
			}
		}
		if r.certificates != nil {
			for _, k := range r.certificates.keys {
				if !yield(k) {
					return
				}
			}
		}
		if r.issuers == nil {
			return
		}
		for _, is := range r.issuers.byIssuer {
			for i := range is.templates {
				if !yield(is.templates[i].key) {
					return
				}
			}
		}
	}
}

// keyTiers returns the tiers that a key lists. k may be nil, because a new key may use what a key
// without tiers may.
func keyTiers(k *Key) config.TierSet {
	if k == nil {
		return 0
	}
	return k.Tiers
}
