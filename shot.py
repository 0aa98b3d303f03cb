import json, nbformat as nf, sys, shutil
from playwright.sync_api import sync_playwright
n=nf.read('/tmp/p4/nb_out.ipynb',4)
CH=shutil.which('chromium') or shutil.which('chromium-browser')
hs=[(i,o['data']['text/html']) for i,c in enumerate(n.cells) for o in c.outputs if 'data' in o and 'text/html' in o['data']]
print([(i,len(h)) for i,h in hs])
with sync_playwright() as p:
    b=p.chromium.launch(executable_path=CH,args=["--no-sandbox","--disable-gpu"])
    for scheme in ('light','dark'):
        pg=b.new_page(viewport=dict(width=900,height=900),color_scheme=scheme)
        for i,h in hs[:4]:
            pg.set_content(f"<html><body style='background:{'#fff' if scheme=='light' else '#111'}'>{h}</body></html>"); pg.wait_for_timeout(700)
            pg.screenshot(path=f'/tmp/p4/s_{i}_{scheme}.png',full_page=True)
    pg=b.new_page(viewport=dict(width=900,height=900)); pg.goto('file:///tmp/p4/saved.html'); pg.wait_for_timeout(700); pg.screenshot(path='/tmp/p4/saved.png',full_page=True)
    pg=b.new_page(viewport=dict(width=420,height=900)); pg.goto('file:///tmp/p4/saved.html'); pg.wait_for_timeout(700); pg.screenshot(path='/tmp/p4/saved_narrow.png',full_page=True)
    b.close()
