// Package report shows a result to people: as the block of text that vLLM's tool prints, and as one
// HTML page.
//
// The page is a template, one style sheet and one script beside a copy of uPlot, all embedded,
// under a policy that forbids it to load anything. The script knows lines and axes; what they mean
// is decided in plots.go. Tables are HTML, so the page reads without the script. What a server or
// another person's file says drives no terminal and is no script: text goes through
// proxy/front/plaintext, and the page through html/template.
package report
