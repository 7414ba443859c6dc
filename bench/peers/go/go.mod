module millrace.invalid/bench/peers/go

go 1.19
