package ledger

import (
	"errors"
	"os"
	"sync"

	"penstock/proxy/telemetry/observe"
)

// condition is the state of the ledger file.
type condition int

const (
	written condition = iota
	waiting           // the previous process writes the ledger
	failing
)

func conditionOf(err error) condition {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) && len(joined.Unwrap()) > 1 {
		return failing // the ledger cannot be read either
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

// before holds the rows that this process read from its predecessor's ledger while the predecessor
// still had the lock.
type before struct {
	mu   sync.Mutex
	rows map[rowID]observe.Amount
	file os.FileInfo // the file at the last read
}

func (b *before) forget() { b.rows = nil }

// add records rows from a file, and returns the usage in these rows that is new. It ignores days
// that are no longer kept individually, because they were added while they were kept.
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

// differs reports whether the file has changed since the last read.
func (b *before) differs(file os.FileInfo) bool {
	was := b.file
	return was == nil || !os.SameFile(was, file) || was.Size() != file.Size() || !was.ModTime().Equal(file.ModTime())
}

// of returns a key's usage between two days, both included, from the rows of models.
func (b *before) of(key string, from, to int64) (sum observe.Amount) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, a := range b.rows {
		if id.key == key && id.user == "" && id.day >= from && id.day <= to {
			sum.Add(a)
		}
	}
	return sum
}
