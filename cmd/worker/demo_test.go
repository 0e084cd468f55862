//go:build !nobench

package main

import "testing"

func TestDemo(t *testing.T) {}
