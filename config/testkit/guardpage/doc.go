// Package guardpage provides memory for tests of code that reads through pointers, as vector
// instructions do. A read one byte too far hits an unreadable page and ends the test's process.
// Tests of any package can use it, because it imports no package of ours.
package guardpage
