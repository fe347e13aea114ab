package auth

// Withhold takes rights to models from the keys of r: a key whose id has no right to one of the
// models in before loses it here. A reload calls it for keys that come into force while the models
// of their file do not, or not yet: a right that was written for the next file's model is no right
// to what runs under the same name. Narrowed rights and removed keys are left as they are. It must
// be called before r is shared.
func (r *Ring) Withhold(models []string, before *Ring) {
	old := make(map[string]*Key, len(before.byHash))
	for _, e := range before.byHash {
		old[e.key.ID] = e.key
	}
	for _, e := range r.byHash {
		for _, m := range models {
			if !e.key.Allows(m) || old[e.key.ID].Allows(m) {
				continue
			}
			if e.key.withheld == nil {
				e.key.withheld = map[string]struct{}{}
			}
			e.key.withheld[m] = struct{}{}
		}
	}
}
