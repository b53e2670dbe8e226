import { renderImage, planRenditions, defaultPresets, identifyFile, defaultLimits } from './src/in-process.ts';
import { sharp } from './src/vips.ts'; import fs from 'node:fs'; import { createRequire } from 'node:module';
const {ssim,files}=createRequire('/tmp/tx/x')('/tmp/tx/q.cjs'); sharp.concurrency(2);
fs.mkdirSync('/tmp/tx/r1',{recursive:true});
const acc={} as any; let cpuA=0,cpuB=0;
for(const f of [...files.slice(0,6),'/tmp/tx/12mp.jpg']){
 const id=await identifyFile(f,defaultLimits) as any; const plan=planRenditions(id,defaultPresets);
 const c=process.cpuUsage(); await renderImage(f,plan,'/tmp/tx/r1'); const d=process.cpuUsage(c); cpuA+=(d.user+d.system)/1000;
 const full=await sharp(f).raw().toBuffer({resolveWithObject:true});
 for(const p of plan){
  const truth=await sharp(full.data,{raw:full.info as any}).resize(p.width,p.height,{fit:'fill'}).greyscale().raw().toBuffer();
  const ours=fs.readFileSync(`/tmp/tx/r1/${p.name}.${p.extension}`);
  const c2=process.cpuUsage(); const s=sharp(f).resize(p.width,p.height,{fit:'fill'}); const theirs=await (p.preset.container==='webp'?s.webp():p.preset.container==='avif'?s.avif():s.jpeg()).toBuffer(); const d2=process.cpuUsage(c2); cpuB+=(d2.user+d2.system)/1000;
  const g=async b=>sharp(b).greyscale().raw().toBuffer();
  const k=p.name+'.'+p.extension; acc[k]??={a:0,b:0,sa:0,sb:0,n:0}; const r=acc[k]; r.n++; r.a+=ours.length;r.b+=theirs.length;r.sa+=ssim(truth,await g(ours),p.width,p.height);r.sb+=ssim(truth,await g(theirs),p.width,p.height);
 }}
let A=0,B=0,SA=0,SB=0; for(const [k,r] of Object.entries(acc) as any){A+=r.a;B+=r.b;SA+=r.sa/r.n;SB+=r.sb/r.n;console.log(k.padEnd(12),'bytes',(r.a/r.b).toFixed(3),'ssim',(r.sa/r.n).toFixed(4),(r.sb/r.n).toFixed(4));}
console.log('total bytes',(A/B).toFixed(3),'ssim',(SA/6).toFixed(4),(SB/6).toFixed(4),'cpu',Math.round(cpuA),Math.round(cpuB));
