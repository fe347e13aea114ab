package main

import (
	"fmt"
	"math/rand/v2"
)

const traceBlockTokens = 512

// blockIDAllocator assigns numbers to new blocks. Its value is the last number that was assigned.
type blockIDAllocator int

func (i *blockIDAllocator) allocate(n int) []int {
	blocks := make([]int, n)
	for k := range blocks {
		*i++
		blocks[k] = int(*i)
	}
	return blocks
}

// hotPrefixTrace returns 400 conversations of four turns. They share a system prompt of 20 thousand
// tokens, and start within the given number of seconds.
func hotPrefixTrace(seconds float64) []traceLine {
	var fresh blockIDAllocator
	random := rand.New(rand.NewPCG(7, 7))
	system := fresh.allocate(39)
	var lines []traceLine
	for c := range 400 {
		at, prompt := random.Float64()*seconds, system[:len(system):len(system)]
		for range 4 {
			prompt = append(prompt, fresh.allocate(1+random.IntN(3))...)
			lines = append(lines, traceLine{int(at * 1000), len(prompt) * traceBlockTokens, 100 + random.IntN(200), prompt[:len(prompt):len(prompt)], fmt.Sprintf("c%d", c)})
			at += 4 + random.ExpFloat64()*11
		}
	}
	return lines
}

// subAgentTrace returns four conversations of 60 thousand tokens. Each has 50 sub-agents that start
// simultaneously.
func subAgentTrace() []traceLine {
	var fresh blockIDAllocator
	var lines []traceLine
	for c := range 4 {
		start, history := c*120_000, fresh.allocate(117)
		add := func(ms, out int, blocks []int, session string) {
			lines = append(lines, traceLine{start + ms, len(blocks) * traceBlockTokens, out, blocks, session})
		}
		session := fmt.Sprintf("s%d", c)
		for turn := range 4 {
			add(turn*12_000, 200, history[:108+3*turn], session)
		}
		for a := range 50 {
			add(60_000, 300, append(history[:117:117], fresh.allocate(2)...), fmt.Sprintf("%s/%d", session, a+1))
		}
	}
	return lines
}
