package ledger

import (
	"errors"
	"os"
	"sync"

	"penstock/proxy/observe"
)

// condition is how it stands with the file.
type condition int

const (
	written condition = iota
	waiting           // the process before this one writes it
	failing
)

func conditionOf(err error) condition {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) && len(joined.Unwrap()) > 1 {
		return failing // it is not even read
	}
	var locked *LockedError
	switch {
	case err == nil:
		return written
	case errors.As(err, &locked):
		return waiting
	}
	return failing
}

// before is what the process before this one has written, as far as it was read while that one
// still had the lock.
type before struct {
	mu   sync.Mutex
	rows map[rowID]observe.Amount
	file os.FileInfo // when it was read last
}

func (b *before) forget() { b.rows = nil }

// add remembers rows of a file, and returns what they say beyond those of the last time. A day that
// is not kept one by one any more was added when it was.
func (b *before) add(rows []observe.UsageRow, all bool) (news []observe.UsageRow) {
	b.mu.Lock()
	defer b.mu.Unlock()
	again := b.rows != nil
	if !again {
		b.rows = make(map[rowID]observe.Amount, len(rows))
	}
	for _, r := range rows {
		if r.User != "" && !all || r.Day == observe.DayBefore && again {
			continue
		}
		id, amount := idOf(&r), r.Amount
		if r.Amount = amount.Beyond(b.rows[id]); r.Amount != (observe.Amount{}) {
			b.rows[id] = amount
			news = append(news, r)
		}
	}
	return news
}

// follow adds to usage what the process before this one has written since the last round.
func (l *Ledger) follow() error {
	info, err := os.Stat(l.file.path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil // it has not written yet
		}
		return err
	}
	if was := l.before.file; was != nil && os.SameFile(was, info) && was.Size() == info.Size() && was.ModTime().Equal(info.ModTime()) {
		return nil
	}
	in, err := os.Open(l.file.path)
	if err != nil {
		return err
	}
	defer in.Close()
	c, err := read(in) // a last line that is cut is being written
	if err != nil {
		return err
	}
	l.before.file = info
	l.inherit(&c, false)
	return nil
}

// inherit adds to usage what is in a file and was not known. Rows of end users wait for all: one who
// is pushed out of those that are listed has fewer calls after that, and not more.
func (l *Ledger) inherit(c *content, all bool) {
	news := l.before.add(c.rows, all)
	if len(news) == 0 && !all {
		return
	}
	l.o.Usage.Restore(l.file.header.orOf(c).Since, news)
	if l.o.Restored != nil {
		l.o.Restored(news)
	}
}

// orOf returns the header, or that of a file which this ledger has not taken over.
func (h header) orOf(c *content) header {
	if h.Format == "" {
		return c.header
	}
	return h
}

// Inherited returns what a key has used from one day to another, both included, by what the ledger
// held when it was opened late: other processes have counted it, or this one's ledger did not yet
// have a name.
func (l *Ledger) Inherited(key string, from, to int64) (sum observe.Amount) {
	l.before.mu.Lock()
	defer l.before.mu.Unlock()
	for id, a := range l.before.rows {
		if id.key == key && id.user == "" && id.day >= from && id.day <= to {
			sum.Add(a)
		}
	}
	return sum
}
