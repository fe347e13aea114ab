package scheduler

import (
	"slices"
	"sync"
)

// LoadedModels contains the loaded models of an on-demand engine.
type LoadedModels struct {
	mu    sync.Mutex
	names []string // least recently requested first
	limit int      // maximum number of loaded models; 0 means no limit
	loads int64
	users map[*modelUser]bool
}

// modelUser is a running request that uses a model.
type modelUser struct {
	model string
	abort func()
}

// SetLimit sets the maximum number of loaded models. 0 means no limit.
func (l *LoadedModels) SetLimit(places int) { l.limit = places }

// IsLoaded reports whether a model is loaded.
func (l *LoadedModels) IsLoaded(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.names, name)
}

// LoadCount returns how many times models have been loaded.
func (l *LoadedModels) LoadCount() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loads
}

// Load loads a model. It returns false if the model was already loaded. If the limit is reached,
// the least recently requested model is unloaded and its requests are aborted, as in llama.cpp's
// router.
func (l *LoadedModels) Load(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.names, name); i >= 0 {
		l.names = append(slices.Delete(l.names, i, i+1), name)
		return false
	}
	for l.limit > 0 && len(l.names) >= l.limit {
		for u := range l.users {
			if u.model == l.names[0] {
				u.abort()
			}
		}
		l.names = l.names[1:]
	}
	l.names = append(l.names, name)
	l.loads++
	return true
}

// RegisterRequest registers a request that uses a model. The caller must call done when the request
// ends. If the model is unloaded before that, cut is called to abort the request.
func (l *LoadedModels) RegisterRequest(name string, cut func()) (done func()) {
	u := &modelUser{name, cut}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users == nil {
		l.users = map[*modelUser]bool{}
	}
	l.users[u] = true
	return func() {
		l.mu.Lock()
		delete(l.users, u)
		l.mu.Unlock()
	}
}

// ModelsInUse returns the models in names that running requests are using.
func (l *LoadedModels) ModelsInUse(names []string) (used []string) {
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

// Unload unloads a model.
func (l *LoadedModels) Unload(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names = slices.DeleteFunc(l.names, func(n string) bool { return n == name })
}

// Clear unloads all models and resets the count of loads.
func (l *LoadedModels) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names, l.loads = nil, 0
}
