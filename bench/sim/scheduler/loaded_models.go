package scheduler

import (
	"slices"
	"sync"
)

// LoadedModels are the models that an engine which loads on demand has in memory.
type LoadedModels struct {
	mu     sync.Mutex
	names  []string // the least recently asked one first
	places int      // 0: no bound
	loads  int64
	users  map[*user]bool
}

// user is a request that works with a model.
type user struct {
	model string
	cut   func()
}

// Bound sets how many models fit into memory; 0: all.
func (l *LoadedModels) Bound(places int) { l.places = places }

// Has reports whether a model is loaded.
func (l *LoadedModels) Has(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.names, name)
}

// Loads is how often a model was loaded.
func (l *LoadedModels) Loads() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loads
}

// Add loads a model; false: it was there. Where it does not fit, the one that was not asked for the
// longest goes, and with it all that works with it, as llama.cpp's router does it.
func (l *LoadedModels) Add(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.names, name); i >= 0 {
		l.names = append(slices.Delete(l.names, i, i+1), name)
		return false
	}
	for l.places > 0 && len(l.names) >= l.places {
		for u := range l.users {
			if u.model == l.names[0] {
				u.cut()
			}
		}
		l.names = l.names[1:]
	}
	l.names = append(l.names, name)
	l.loads++
	return true
}

// Use counts a request that works with a model until done is called. cut ends it when the model
// goes.
func (l *LoadedModels) Use(name string, cut func()) (done func()) {
	u := &user{name, cut}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users == nil {
		l.users = map[*user]bool{}
	}
	l.users[u] = true
	return func() {
		l.mu.Lock()
		delete(l.users, u)
		l.mu.Unlock()
	}
}

// Used are the models of a list that requests work with.
func (l *LoadedModels) Used(names []string) (used []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		for u := range l.users {
			if u.model == name {
				used = append(used, name)
				break
			}
		}
	}
	return used
}

// Drop unloads a model.
func (l *LoadedModels) Drop(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names = slices.DeleteFunc(l.names, func(n string) bool { return n == name })
}

// Clear unloads all.
func (l *LoadedModels) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names, l.loads = nil, 0
}
