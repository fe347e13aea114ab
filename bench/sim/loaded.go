package sim

import "sync"

// loaded are the models that an engine which loads on demand has in memory.
type loaded struct {
	mu    sync.Mutex
	names map[string]bool
}

func (l *loaded) has(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.names[name]
}

// add loads a model; false: it was there.
func (l *loaded) add(name string) bool {
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

func (l *loaded) drop(name string) {
	l.mu.Lock()
	delete(l.names, name)
	l.mu.Unlock()
}

func (l *loaded) clear() {
	l.mu.Lock()
	l.names = nil
	l.mu.Unlock()
}
