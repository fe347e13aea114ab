package scheduler

import (
	"slices"
	"sync"
)

// LoadedModels holds the models in memory of an engine that loads on demand.
type LoadedModels struct {
	mu     sync.Mutex
	names  []string // least recently requested first
	places int      // 0: no limit
	loads  int64
	users  map[*user]bool
}

// user is a request that uses a model.
type user struct {
	model string
	cut   func()
}

// Bound sets the number of models that fit into memory; 0: no limit.
func (l *LoadedModels) Bound(places int) { l.places = places }

// Has reports whether a model is loaded.
func (l *LoadedModels) Has(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.names, name)
}

// Loads returns the number of times that a model was loaded.
func (l *LoadedModels) Loads() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loads
}

// Add loads a model; false: it was already loaded. If it does not fit, the least recently requested
// model is unloaded and its requests are aborted, as in llama.cpp's router.
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

// Use counts a request that uses a model until done is called. cut is called to end the request
// when the model is unloaded.
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

// Used returns the models of a list that requests are using.
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

// Clear unloads all models.
func (l *LoadedModels) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names, l.loads = nil, 0
}
