package ledger

import (
	"errors"
	"os"
	"sync"

	"penstock/proxy/telemetry/observe"
)

type condition int

const (
	written condition = iota
	waiting           // the previous process writes the ledger
	failing
)

func conditionOf(err error) condition {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) && len(joined.Unwrap()) > 1 {
		return failing // the ledger cannot even be read
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

// before contains the rows that were read from the ledger while the previous process still held the
// lock.
type before struct {
	mu   sync.Mutex
	rows map[rowID]observe.Amount
	file os.FileInfo
}

func (b *before) forget() { b.rows = nil }

// add returns the new usage in rows. Unless all is true, it ignores the sum of old days, because
// this usage has already been added.
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

func (b *before) differs(file os.FileInfo) bool {
	was := b.file
	return was == nil || !os.SameFile(was, file) || was.Size() != file.Size() || !was.ModTime().Equal(file.ModTime())
}

// of returns a key's usage between two days (inclusive), from the rows that have a model.
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
