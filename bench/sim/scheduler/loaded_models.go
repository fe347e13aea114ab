package scheduler

import "sync"

// LoadedModels are the models that an engine which loads on demand has in memory.
type LoadedModels struct {
	mu    sync.Mutex
	names map[string]bool
}

// Has reports whether a model is loaded.
func (l *LoadedModels) Has(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.names[name]
}

// Add loads a model; false: it was there.
func (l *LoadedModels) Add(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.names[name] {
		return false
	}
	if l.names == nil {
		l.names = map[string]bool{}
	}
	l.names[name] = true
	return true
}

// Drop unloads a model.
func (l *LoadedModels) Drop(name string) {
	l.mu.Lock()
	delete(l.names, name)
	l.mu.Unlock()
}

// Clear unloads all.
func (l *LoadedModels) Clear() {
	l.mu.Lock()
	l.names = nil
	l.mu.Unlock()
}
