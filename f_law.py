    a=jaxlens.sweep(tstep, m, opt, over={"x":[S((n,8),'f4') for n in (8,1024,4096)]},executor=1,measure=("peak",)); print([r.figures.peak for r in a.rows])
