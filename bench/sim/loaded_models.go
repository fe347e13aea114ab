package sim

import "sync"

// loadedModels are the models that an engine which loads on demand has in memory.
type loadedModels struct {
	mu    sync.Mutex
	names map[string]bool
}

func (l *loadedModels) has(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.names[name]
}

// add loads a model; false: it was there.
func (l *loadedModels) add(name string) bool {
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

func (l *loadedModels) drop(name string) {
	l.mu.Lock()
	delete(l.names, name)
	l.mu.Unlock()
}

func (l *loadedModels) clear() {
	l.mu.Lock()
	l.names = nil
	l.mu.Unlock()
}
